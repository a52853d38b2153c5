// See outlook.h.
#include "experiments/advise/outlook.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "experiments/output/result_files.h"
#include "reports/fields.h"

namespace ecmv::experiments {
namespace {

using reports::CaseRecord;

// One layer of a measured case.
struct Rate {
  std::string kind;  // "" if the record lacks it
  int64_t rows = 0, cols = 0;
  double seconds = 0, bytes = 0;
  double elements() const { return static_cast<double>(rows) * static_cast<double>(cols); }
};

// Seconds of each layer add up to the time of the case.
std::vector<Rate> rates_of(const CaseRecord& r) {
  std::vector<Rate> rates;
  std::vector<double> layers, weights;
  const bool alone = std::ranges::all_of(r.step.parts, [](const auto& part) { return part.layer_s > 0; });
  for (const CaseRecord::Step::Part& part : r.step.parts) {
    const auto count = static_cast<double>(part.layers);
    rates.push_back({part.kind, part.rows, part.cols, 0, static_cast<double>(part.stored_bytes) / count});
    layers.push_back(count);
    weights.push_back(alone ? part.layer_s : rates.back().elements());
  }
  if (rates.empty()) {  // a matmul: its layers are alike, or share the time by their elements
    auto shapes = r.data.shapes;
    if (shapes.empty()) shapes.push_back({r.data.rows, r.data.cols, r.data.layers});
    for (const auto& [rows, cols, count] : shapes) {
      rates.push_back({"", rows, cols, 0, 0});
      rates.back().bytes = rates.back().elements() * r.size.bits_per_element / 8;
      layers.push_back(static_cast<double>(count));
      weights.push_back(rates.back().elements());
    }
  }
  double sum = 0;
  for (size_t i = 0; i < rates.size(); ++i) sum += layers[i] * weights[i];
  for (size_t i = 0; i < rates.size(); ++i) rates[i].seconds = r.time.median_s * weights[i] / sum;
  return rates;
}

// How unlike a layer is to a measured one: columns count more than rows, and the kind breaks ties.
double distance(const LayerGroup& layer, const Rate& rate) {
  const auto octaves = [](int64_t a, int64_t b) {
    return std::abs(
        std::log2(static_cast<double>(std::max<int64_t>(1, a)) / static_cast<double>(std::max<int64_t>(1, b))));
  };
  return octaves(layer.rows, rate.rows) + 2 * octaves(layer.cols, rate.cols) + (layer.kind == rate.kind ? 0 : 0.25);
}

std::string format_of(const CaseRecord& r) {
  const std::string quantiser = reports::quantiser_label(r);
  return quantiser.empty() ? r.data.type : quantiser;
}

bool counts(const CaseRecord& r, const OutlookTask& task) {
  const bool product = r.kernel.op == "step" || r.kernel.op == "matmul";
  const bool floats = task.type.starts_with("bf") || task.type.starts_with("f");
  const std::string format = format_of(r);
  const bool of_type = format == task.type || (floats && (format != r.data.type || format == "bf16"));
  return r.status == reports::Status::ok && r.time.median_s > 0 && product && r.kernel.batch == task.batch && of_type &&
         (task.activations.empty() || r.kernel.activations == task.activations) &&
         (task.device.empty() || reports::device_label(r) == task.device);
}

// The number of layers that the case measured exactly.
int64_t exact_layers(const CaseRecord& r, const OutlookTask& task) {
  int64_t exact = 0;
  for (const LayerGroup& group : task.groups)
    for (const Rate& rate : rates_of(r))
      if (distance(group, rate) == 0) {
        exact += group.layers;
        break;
      }
  return exact;
}

Outlook outlook_of(const CaseRecord& r, const OutlookTask& task) {
  Outlook outlook{.format = format_of(r),
                  .codec = reports::codec_label(r),
                  .device = reports::device_label(r),
                  .kernel = reports::kernel_label(r),
                  .uncompressed = is_uncompressed(r.codec.id),
                  .snr_db = r.distortion.snr_db,
                  .batch = r.kernel.batch,
                  .disturbed = reports::is_disturbed(r)};
  outlook.lossless = outlook.format == task.type && reports::is_exact(r);
  const std::vector<Rate> rates = rates_of(r);
  for (const LayerGroup& group : task.groups) {
    const Rate& like = *std::ranges::min_element(rates, {}, [&](const Rate& rate) { return distance(group, rate); });
    const double share = static_cast<double>(group.layers) * static_cast<double>(group.rows) *
                         static_cast<double>(group.cols) / like.elements();
    outlook.step_s += share * like.seconds;
    outlook.stored_bytes += share * like.bytes;
  }
  return outlook;
}

}  // namespace

std::vector<LayerGroup> groups_of(const std::vector<datasets::WeightLayer>& layers) {
  std::vector<LayerGroup> groups;
  for (const datasets::WeightLayer& layer : layers) {
    const LayerGroup wanted{std::string(datasets::layer_kind_name(layer.kind)), layer.shape.rows, layer.shape.cols, 0};
    auto known = std::ranges::find_if(groups, [&](const LayerGroup& group) {
      return std::tie(group.kind, group.rows, group.cols) == std::tie(wanted.kind, wanted.rows, wanted.cols);
    });
    if (known == groups.end()) known = groups.insert(known, wanted);
    ++known->layers;
  }
  return groups;
}

bool is_uncompressed(const std::string& codec) {
  return ("," + std::string(kDefaultBaseline) + ",").find("," + codec + ",") != std::string::npos;
}

std::vector<Outlook> outlooks(const reports::RecordSet& records, const OutlookTask& task) {
  // A codec may have several cases. A step counts before a matmul, then more layers of the same shapes, then the later
  // case.
  using Rank = std::tuple<bool, int64_t, size_t>;
  std::map<std::tuple<std::string, std::string, std::string>, std::pair<Rank, const CaseRecord*>> best;
  for (size_t i = 0; i < records.cases.size(); ++i) {
    const CaseRecord& r = records.cases[i];
    if (!counts(r, task)) continue;
    const Rank rank{r.kernel.op == "step", exact_layers(r, task), i};
    const auto key = std::tuple(format_of(r), reports::codec_label(r), reports::device_label(r));
    const auto [known, is_new] = best.try_emplace(key, rank, &r);
    if (!is_new && rank > known->second.first) known->second = {rank, &r};
  }
  std::vector<Outlook> found;
  for (const auto& [key, choice] : best) found.push_back(outlook_of(*choice.second, task));
  std::ranges::stable_sort(found, {}, &Outlook::step_s);
  return found;
}

}  // namespace ecmv::experiments
