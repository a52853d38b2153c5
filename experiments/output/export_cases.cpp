// See export_cases.h.
#include "experiments/output/export_cases.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <stdexcept>

#include <fmt/format.h>

#include "codecs/registry.h"
#include "datasets/files/safetensors.h"
#include "datasets/tensor.h"
#include "experiments/check/check.h"
#include "experiments/plan/plan.h"
#include "experiments/run/loaded_dataset.h"
#include "reports/fields.h"

namespace ecmv::experiments {
namespace {

using datasets::TensorView;
using Metadata = std::map<std::string, std::string>;

// A readable name first, then a hash for what its shortened form does not say.
std::string file_name(const DataSpec& data, const CodecSpec& codec) {
  constexpr size_t kLongest = 120;
  Case one{data, codec, {}, {}};
  one.kernel.task = Task::size;
  std::string name = reports::slug(data.name() + (codec.id.empty() ? "" : "_" + codec.name()));
  return name.substr(0, kLongest) + "_" + one.key().substr(0, 8);
}

std::string layer_name(size_t layer) { return fmt::format("layer{}", layer); }

Metadata describe(const DataSpec& data, const std::vector<datasets::Matrix>& layers) {
  Metadata metadata = {{"data", data.name()}};
  for (size_t i = 0; i < layers.size(); ++i)
    metadata[layer_name(i)] =
        fmt::format("type={},rows={},cols={},hash={:016x}", datasets::element_type_name(layers[i].type),
                    layers[i].shape.rows, layers[i].shape.cols, layers[i].content_hash);
  return metadata;
}

// How to read the stored bytes: [rows, groups] of a type, each scale times the factor; then as many minimums.
std::string scales_text(const datasets::Scales& scales) {
  static constexpr std::string_view kTypes[] = {"bf16", "e4m3", "e8m0", "f16"};
  return fmt::format("type={},rows={},groups={},group_cols={},factor={}{}", kTypes[static_cast<size_t>(scales.type)],
                     scales.rows, scales.groups, scales.group_cols, scales.factor,
                     scales.has_minimums ? ",minimums=1" : "");
}

class Exporter {
 public:
  Exporter(const ExportOptions& options, std::ostream& out, std::ostream& messages)
      : options_(options), out_(out), messages_(messages) {}

  // Exports the cases of one dataset, sorted by codec.
  void dataset(std::span<const Case> cases) {
    const DataSpec& data = cases.front().data;
    datasets::Dataset dataset;
    const Outcome loaded = guarded([&]() -> Outcome {
      if (const std::string reason = lacks_memory(data); !reason.empty())
        return {reports::Status::out_of_memory, reason};
      dataset = load_dataset(data);
      return {};
    });
    if (!loaded.fine()) {
      ++summary.failed;
      messages_ << fmt::format("{}: {}\n", data.name(), loaded.reason);
      return;
    }
    bool has_matrices = false;
    for (size_t i = 0; i < cases.size() && !options_.interrupted(); ++i) {
      if (i > 0 && cases[i].codec == cases[i - 1].codec) continue;
      std::string missing;
      const auto codec = choice_of(cases[i].codec, codecs::all_codecs(), missing);
      if (!codec || cases[i].codec.is_mix()) {
        ++summary.failed;
        messages_ << fmt::format("{}: a stream is that of one codec of this build.\n", cases[i].codec.name());
        continue;
      }
      const EncodedLayers encoded = encode_and_check({&*codec, 1}, dataset.layers).front();
      if (!encoded.outcome.fine()) {
        count(encoded.outcome.status);
        messages_ << fmt::format("{}/{}: {}: {}\n", data.name(), cases[i].codec.name(),
                                 reports::to_string(encoded.outcome.status), encoded.outcome.reason);
        continue;
      }
      if (!has_matrices) write_matrices(data, dataset);
      has_matrices = true;
      write_stream(cases[i], dataset, encoded);
      ++summary.written;
    }
  }

  ExportSummary summary;

 private:
  void count(reports::Status status) {
    if (status == reports::Status::refused)
      ++summary.refused;
    else if (status == reports::Status::incorrect)
      ++summary.incorrect;
    else
      ++summary.failed;
  }

  void write_matrices(const DataSpec& data, const datasets::Dataset& dataset) {
    std::vector<TensorView> tensors;
    for (size_t i = 0; i < dataset.layers.size(); ++i) {
      const datasets::Matrix& layer = dataset.layers[i];
      tensors.push_back({layer_name(i),
                         std::string(datasets::dtype_of(layer.type)),
                         {layer.shape.rows, layer.shape.cols},
                         layer.elements});
      if (dataset.scales.empty() || dataset.scales[i].empty()) continue;
      const std::vector<std::byte>& scales = dataset.scales[i].stored;
      tensors.push_back({layer_name(i) + ".scales", "U8", {static_cast<int64_t>(scales.size())}, scales});
    }
    tensors.push_back({"initial_vector",
                       "I8",
                       {static_cast<int64_t>(dataset.initial_vector.size())},
                       std::as_bytes(std::span(dataset.initial_vector))});
    matrices_file_ = file_name(data, {}) + ".matrices.safetensors";
    Metadata metadata = describe(data, dataset.layers);
    for (size_t i = 0; i < dataset.scales.size(); ++i)
      if (!dataset.scales[i].empty()) metadata[layer_name(i) + ".scales"] = scales_text(dataset.scales[i]);
    write(matrices_file_, tensors, metadata, data.name());
  }

  // Writes the sections unchanged and numbered, because empty tensors may stand anywhere in a file.
  void write_stream(const Case& one, const datasets::Dataset& dataset, const EncodedLayers& encoded) {
    Metadata metadata = describe(one.data, dataset.layers);
    metadata["codec"] = one.codec.id;
    metadata["format_version"] = std::to_string(one.codec.format_version);
    const bool tuned = !one.codec.tuned.empty() && !encoded.layers.empty();
    metadata["settings"] = (tuned ? encoded.layers.front().settings : one.codec.settings).to_string();
    metadata["matrices"] = matrices_file_;
    metadata["decode"] = encoded.decode;
    std::vector<TensorView> tensors;
    for (size_t i = 0; i < encoded.layers.size(); ++i)
      for (size_t k = 0; k < encoded.layers[i].sections.size(); ++k) {
        const backends::Section& section = encoded.layers[i].sections[k];
        std::string name = fmt::format("{}.{}.{}", layer_name(i), k, section.name);
        metadata[name] =
            fmt::format("role={},padding_bytes={}", backends::role_name(section.role), section.padding_bytes);
        tensors.push_back({std::move(name), "U8", {static_cast<int64_t>(section.bytes.size())}, section.bytes});
      }
    write(file_name(one.data, one.codec) + ".stream.safetensors", tensors, metadata,
          one.data.name() + "/" + one.codec.name());
  }

  void write(const std::string& name, std::span<const TensorView> tensors, const Metadata& metadata,
             const std::string& what) {
    const std::filesystem::path path = options_.folder / name;
    if (!options_.replace && std::filesystem::exists(path))
      throw std::runtime_error(fmt::format("The file {} is there already; --force replaces it.", path.string()));
    const std::vector<std::byte> bytes = datasets::write_safetensors(tensors, metadata);
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.flush();
    if (!file) {
      const std::string why = std::strerror(errno);
      file.close();
      std::error_code none;
      if (std::filesystem::is_regular_file(path, none)) std::filesystem::remove(path, none);  // a part of it is no use
      throw std::runtime_error(fmt::format("The file {} cannot be written: {}.", path.string(), why));
    }
    out_ << fmt::format("{}: {}\n", path.string(), what);
  }

  const ExportOptions& options_;
  std::ostream &out_, &messages_;
  std::string matrices_file_;  // of the current dataset
};

}  // namespace

ExportSummary export_cases(const Experiment& experiment, const ExportOptions& options, std::ostream& out,
                           std::ostream& messages) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error)
    throw std::runtime_error(
        fmt::format("The folder {} cannot be made: {}.", options.folder.string(), error.message()));
  Exporter exporter(options, out, messages);
  for (std::span<const Case> rest(experiment.cases); !rest.empty() && !options.interrupted();) {
    const auto end = std::ranges::find_if(rest, [&](const Case& one) { return one.data != rest.front().data; });
    const auto cases = rest.first(static_cast<size_t>(end - rest.begin()));
    exporter.dataset(cases);
    rest = rest.subspan(cases.size());
  }
  exporter.summary.interrupted = options.interrupted();
  return exporter.summary;
}

}  // namespace ecmv::experiments
