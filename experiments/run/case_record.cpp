// See case_record.h.
#include "experiments/run/case_record.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "datasets/scales.h"
#include "experiments/config/axes.h"
#include "experiments/plan/step.h"
#include "experiments/ranks/rank_team.h"
#include "reports/fields.h"
#include "reports/metrics.h"

namespace ecmv::experiments {
namespace {

// The standard deviation that the source was asked for; for sources without one, that of the numbers. Quantisers do not
// change it, so data that differ only in the quantiser have the same.
double sigma_of(const DataSpec& spec, const datasets::Dataset& dataset) {
  if (const auto it = spec.numbers.find("sigma"); it != spec.numbers.end()) return it->second;
  if (const auto it = spec.numbers.find("entropy_bits"); it != spec.numbers.end() && spec.source == "gaussian")
    return std::exp2(it->second) / std::sqrt(2 * std::numbers::pi * std::numbers::e);
  double count = 0, sum = 0, squares = 0;
  std::vector<double> row;
  const bool quantised = !dataset.sources.empty();
  for (size_t i = 0; i < dataset.layers.size(); ++i) {
    const datasets::Matrix& matrix = quantised ? dataset.sources[i] : dataset.layers[i];
    const datasets::Scales scales = quantised ? datasets::Scales{} : dataset.scales_of(i);
    row.resize(static_cast<size_t>(matrix.shape.cols));
    for (int64_t r = 0; r < matrix.shape.rows; ++r) {
      datasets::read_row(matrix.view(), scales, r, row);
      for (const double value : row) {
        if (!std::isfinite(value)) continue;
        count += 1;
        sum += value;
        squares += value * value;
      }
    }
  }
  return count == 0 ? 0 : std::sqrt(std::max(0.0, squares / count - (sum / count) * (sum / count)));
}

// Numbers and shapes of layers; `copies` of each matrix, or one.
void fill_shapes(reports::CaseRecord::Data& data, const std::vector<datasets::Matrix>& matrices,
                 std::span<const int64_t> copies) {
  data.layers = 0;
  data.shapes.clear();
  for (size_t i = 0; i < matrices.size(); ++i) {
    const datasets::Shape& matrix = matrices[i].shape;
    const int64_t count = copies.empty() ? 1 : copies[i];
    const auto same = [&](const auto& known) { return known.rows == matrix.rows && known.cols == matrix.cols; };
    auto shape = std::ranges::find_if(data.shapes, same);
    if (shape == data.shapes.end()) shape = data.shapes.insert(shape, {matrix.rows, matrix.cols, 0});
    shape->layers += count;
    data.layers += count;
  }
  if (matrices.empty()) return;
  data.rows = matrices.front().shape.rows;
  data.cols = matrices.front().shape.cols;
  if (data.shapes.size() == 1) data.shapes.clear();
}

// A setting from a list is stored as text even if it is a number, as in older records.
bool is_listed(const codecs::Codec& codec, std::string_view setting) {
  return std::any_of(codec.settings.begin(), codec.settings.end(), [&](const codecs::SettingInfo& info) {
    return info.name == setting && !codecs::listed_values(info).empty();
  });
}

void fill_settings(reports::CaseRecord::Codec& record, const CodecSpec& codec) {
  const codecs::CodecEntry* const entry = codecs::find_codec(codec.id);
  for (const auto& [name, value] : codec.settings.values()) {
    const auto* const integer = std::get_if<int64_t>(&value);
    if (integer == nullptr)
      record.settings[name] = std::get<std::string>(value);
    else if (entry != nullptr && is_listed(*entry->codec, name))
      record.settings[name] = std::to_string(*integer);
    else
      record.settings[name] = *integer;
  }
}

}  // namespace

reports::CaseRecord describe_case(const Case& one, const std::string& experiment, const std::string& run_id) {
  reports::CaseRecord record;
  record.case_key = one.key();
  record.run = run_id;
  record.experiment = experiment;
  record.data.source = one.data.source;
  record.data.rows = one.data.shape.rows;
  record.data.cols = one.data.shape.cols;
  record.data.type = "i8";
  record.data.layers = one.data.layers;
  record.data.seed = one.data.seed;
  for (const auto& [name, value] : one.data.numbers) record.data.parameters[name] = value;
  for (const auto& [name, value] : one.data.texts) record.data.parameters[name] = value;
  if (!one.data.quantiser.id.empty()) record.data.parameters["quantise"] = one.data.quantiser.name();
  record.codec.id = one.codec.id;
  record.codec.format_version = one.codec.format_version;
  record.codec.non_default = one.codec.non_default;
  const codecs::CodecEntry* const entry = codecs::find_codec(one.codec.id);
  if (entry != nullptr && entry->loaded()) {
    record.codec.library_path = entry->library_path;
    record.codec.library_hash = entry->library_hash;
  }
  for (size_t i = 0; i < one.codec.kinds.size(); ++i) {
    record.codec.settings[one.codec.kinds[i]] = one.codec.of_kinds[i].short_name();
    record.codec.non_default->push_back(one.codec.kinds[i]);
  }
  fill_settings(record.codec, one.codec);
  for (const KernelAxis& axis : kernel_axes())
    if (axis.record != nullptr) axis.record(one.kernel, record);
  return record;
}

reports::CaseRecord::Data describe_data(const DataSpec& spec, const datasets::Dataset& dataset) {
  Case one;
  one.data = spec;
  reports::CaseRecord::Data data = describe_case(one, "", "").data;
  uint64_t hash = 0;
  for (const datasets::Matrix& matrix : dataset.layers) hash = hash * 0x100000001B3u ^ matrix.content_hash;
  data.hash = fmt::format("{:016x}", hash);
  data.sigma = sigma_of(spec, dataset);
  fill_shapes(data, dataset.layers, {});
  if (dataset.unsigned_layers > 0) data.parameters["zero_point"] = 128.0;
  if (dataset.layers.empty()) return data;
  std::vector<std::string_view> types;
  for (const datasets::Matrix& matrix : dataset.layers) {
    const std::string_view type = datasets::element_type_name(matrix.type);
    if (std::ranges::find(types, type) == types.end()) types.push_back(type);
  }
  data.type = fmt::format("{}", fmt::join(types, ", "));
  return data;
}

void fill_tuned(reports::CaseRecord& record, const CodecSpec& codec,
                const std::vector<backends::CompressedMatrix>& layers) {
  std::vector<TunedSettings> tuned = codec.tuned;
  for (const CodecSpec& one : codec.of_kinds) tuned.insert(tuned.end(), one.tuned.begin(), one.tuned.end());
  size_t taken = 0;
  for (const backends::CompressedMatrix& layer : layers)
    taken += std::ranges::any_of(tuned, [&](const TunedSettings& one) {
      return one.fits(layer.type, layer.shape) && one.settings == layer.settings;
    });
  record.codec.tuned = taken > 0;
  const auto same = [&](const auto& layer) { return layer.settings == layers.front().settings; };
  const codecs::CodecEntry* const entry = codecs::find_codec(codec.id);
  if (taken < layers.size() || layers.empty() || entry == nullptr || !std::ranges::all_of(layers, same)) return;
  const CodecSpec stored = make_codec_spec(*entry, layers.front().settings);
  record.codec.non_default = stored.non_default;
  fill_settings(record.codec, stored);
}

void fill_size(reports::CaseRecord& record, std::span<const double> entropies,
               const std::vector<backends::CompressedMatrix>& layers, std::span<const datasets::Scales> scales,
               std::span<const int64_t> copies) {
  double elements = 0, entropy_bits = 0;
  // Each rank's rows of a layer are encoded by themselves, so several parts follow each other for each entropy.
  const size_t parts = entropies.empty() ? 1 : std::max<size_t>(1, layers.size() / entropies.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const backends::CompressedMatrix& layer = layers[i];
    const int64_t count = copies.empty() ? 1 : copies[i / parts];
    // A layer's facts stand beside its first part.
    const bool first = i % parts == 0;
    const int64_t beside = scales.empty() || !first ? 0 : static_cast<int64_t>(scales[i / parts].stored.size());
    const auto all = static_cast<double>(count * layer.shape.elements());
    elements += all;
    if (all > 0) entropy_bits += all * entropies[i / parts];
    record.size.stored_bytes += count * (layer.stored_bytes() + beside);
    record.size.payload_bytes += count * layer.stored_bytes(backends::Role::payload);
    record.size.table_bytes += count * layer.stored_bytes(backends::Role::table);
    record.size.index_bytes += count * layer.stored_bytes(backends::Role::index);
    record.size.scale_bytes += count * (layer.stored_bytes(backends::Role::scale) + beside);
    record.size.padding_bits += 8 * count * layer.padding_bytes();
  }
  if (elements > 0) {
    record.size.bits_per_element = 8.0 * static_cast<double>(record.size.stored_bytes) / elements;
    record.size.entropy_bits_per_element = entropy_bits / elements;
  }
}

void fill_step(reports::CaseRecord& record, const std::vector<datasets::Matrix>& matrices, int repeat) {
  const StepLayers step = step_layers(matrices, repeat);
  record.step.blocks = step.blocks;
  record.step.encoded_blocks = step.encoded_blocks;
  fill_shapes(record.data, matrices, step.copies);
}

void fill_distortion(reports::CaseRecord& record, const datasets::Distortion& distortion) {
  record.distortion = {distortion.snr_db(), distortion.largest};
}

std::string device_label(const backends::Device& device) {
  const std::string memory(device.memory());
  const bool other = memory.find(':') != std::string::npos && !memory.ends_with(":0");
  return other ? fmt::format("{} ({})", device.info().name, memory) : device.info().name;
}

void fill_device(reports::CaseRecord& record, const backends::Device& device) {
  const backends::DeviceInfo& info = device.info();
  record.kernel.device = device_label(device);
  record.kernel.simd_target = info.simd_target;
  record.kernel.threads = info.threads;
  record.kernel.compute_units = info.compute_units;
  if (info.clock_hz > 0) record.kernel.highest_clock_hz = info.clock_hz;
}

void fill_memory(reports::CaseRecord& record, backends::Device& device, int64_t weight_bytes) {
  if (const int64_t free = device.free_memory(); free >= 0)
    record.memory = {.weight_bytes = weight_bytes, .device_bytes = device.info().memory_bytes, .free_bytes = free};
}

void fill_ranks(reports::CaseRecord& record, const backends::SharedDevice& shared, std::span<const LayerSplit> splits,
                const Reference& reference) {
  const int64_t bytes_of_row = reports::has_tokens(record) ? 4 * record.kernel.batch : 1;
  ExchangedBytes all;
  for (size_t layer = 0; layer < reference.layers(); ++layer) {
    const size_t matrix = reference.matrix_of(layer);
    const ExchangedBytes own = exchanged_after(splits[matrix], bytes_of_row * (*reference.matrices)[matrix].shape.rows);
    all.gathered += own.gathered;
    all.reduced += own.reduced;
    all.exchanges += own.exchanges;
  }
  record.ranks.count = shared.ranks;
  record.ranks.hosts = RankTeam::get()->hosts(shared.ranks);
  record.ranks.library = shared.library;
  record.ranks.connected_by = RankTeam::get()->library();
  record.ranks.devices = shared.devices;
  record.ranks.links = shared.links;
  record.ranks.bound = shared.bound;
  if (!shared.devices.empty()) record.kernel.compute_units *= shared.ranks;  // all devices together
  record.ranks.exchanges = all.exchanges;
  if (reference.layers() == 0) return;
  const auto layers = static_cast<double>(reference.layers());
  record.ranks.gathered_bytes_per_layer = static_cast<double>(all.gathered) / layers;
  record.ranks.reduced_bytes_per_layer = static_cast<double>(all.reduced) / layers;
}

void fill_check(reports::CaseRecord& record, const OutputCheck& check) {
  const bool rounds = reports::has_tokens(record);
  record.check.outputs = !check.outputs.empty() ? check.outputs
                         : rounds
                             ? fmt::format("within the bound of float32 sums{}{}{}, the largest error is {:.2g} of it",
                                           check.widening.empty() ? "" : " that the kernel widens (", check.widening,
                                           check.widening.empty() ? "" : ")", check.bound_used)
                             : "exact";
  record.check.guards = check.guards.empty() ? "intact" : check.guards;
}

void fill_time(reports::CaseRecord& record, const TimedPass& timed, const Reference& reference, backends::Op op,
               const backends::DeviceInfo& device) {
  int64_t elements = 0, largest = 0;
  for (size_t layer = 0; layer < reference.layers(); ++layer) {
    const datasets::Matrix& matrix = (*reference.matrices)[reference.matrix_of(layer)];
    elements += matrix.shape.elements();
    largest = std::max(largest, static_cast<int64_t>(matrix.elements.size()));
  }
  // The reference decoder and GPUs write whole matrices even for a product; CPUs' decode kernels do so tile by tile, in
  // a near cache.
  const bool gpu = device.wave_size > 0;
  const bool whole =
      op == backends::Op::decode || record.kernel.variant == "reference" || (gpu && record.kernel.unfused);
  const int64_t touched = record.size.stored_bytes + (whole ? largest : 0);
  record.time.elements = elements;
  // With a cache of unknown size nothing shows that the data came from memory.
  record.time.cache = device.llc_bytes == 0 || touched < 4 * device.llc_bytes ? "resident" : "streamed";
  record.time.device_clock = gpu ? "device" : "host";
  record.time.samples_s = timed.samples_s;
  record.time.disturbed_samples = timed.disturbed_samples;
  record.time.unsteady_samples = timed.unsteady_samples;
  record.time.iterations_per_sample = timed.passes_per_sample;
  record.time.median_s = reports::quantile(timed.samples_s, 0.5);
  record.time.p10_s = reports::quantile(timed.samples_s, 0.1);
  record.time.p90_s = reports::quantile(timed.samples_s, 0.9);
  if (timed.energy_j > 0) record.time.energy_j = timed.energy_j / static_cast<double>(timed.energy_passes);
}

void fill_clocks(reports::CaseRecord& record, const backends::DeviceState& before, const backends::DeviceState& after) {
  const auto known = [](double value) { return value > 0 ? value : reports::kUnknown; };
  record.time.clock_before_hz = known(before.clock_hz);
  record.time.clock_after_hz = known(after.clock_hz);
  record.time.memory_clock_hz = known(after.memory_clock_hz);
  record.time.power_w = known(after.power_w);
  record.time.temperature_c = known(after.temperature_c);
  record.time.throttle_reasons = after.throttle_reasons;
}

void fill_host(reports::CaseRecord& record, const backends::cpu::Disturbance& disturbance,
               const backends::cpu::CoreState& cores) {
  record.host = {disturbance.other_cores, disturbance.stolen_share, disturbance.waiting_share,
                 disturbance.involuntary_switches};
  if (!std::isfinite(cores.dependent_ops_per_s)) return;  // they were not measured
  record.host.clock_share = cores.clock_share;
  record.host.throughput_share = cores.throughput_share;
  record.host.dependent_ops_per_s = cores.dependent_ops_per_s;
  record.host.clock_hz = cores.clock_hz;
  record.host.throttle_events = cores.throttle_events;
}

}  // namespace ecmv::experiments
