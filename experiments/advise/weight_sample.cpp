// See weight_sample.h.
#include "experiments/advise/weight_sample.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "backends/backend.h"
#include "backends/cpu/team.h"
#include "codecs/registry.h"
#include "datasets/layers/unpack.h"
#include "experiments/advise/outlook.h"
#include "experiments/command/ad_hoc.h"
#include "experiments/config/expand.h"
#include "experiments/tune/tuned_file.h"

namespace ecmv::experiments {
namespace {

// A core encodes, decodes and checks this much in about ten seconds with one codec.
constexpr int64_t kElementsACore = 24'000'000, kFewestElements = 32'000'000, kMostElements = 512'000'000;
constexpr int64_t kFewestRows = 256, kMostRows = int64_t{1} << 24, kMostCopies = 64;

// The layers of a sample.
std::vector<datasets::WeightLayer> sampled(const datasets::WeightLayers& weights) {
  std::vector<datasets::WeightLayer> layers = weights.layers;
  if (weights.source == "model")
    std::erase_if(layers, [](const datasets::WeightLayer& layer) { return datasets::layer_block(layer.name) > 0; });
  return layers;
}

int64_t elements_of(const std::vector<datasets::WeightLayer>& layers, int64_t rows) {
  int64_t elements = 0;
  for (const datasets::WeightLayer& layer : layers) elements += std::min(rows, layer.shape.rows) * layer.shape.cols;
  return elements;
}

int64_t rows_of(const std::vector<datasets::WeightLayer>& layers) {
  const int64_t wanted =
      std::clamp(kElementsACore * backends::cpu::Team::available_threads(), kFewestElements, kMostElements);
  int64_t rows = kMostRows;
  while (rows > kFewestRows && elements_of(layers, rows) > wanted) rows /= 2;
  return rows;
}

// Copies of the sampled block in memory: enough that caches do not hold its codes, but at most one for each block of
// the model.
int64_t copies_of(const datasets::WeightLayers& weights, const std::vector<datasets::WeightLayer>& layers, int64_t rows,
                  int64_t cache_bytes) {
  std::set<int64_t> blocks;
  for (const datasets::WeightLayer& layer : weights.layers) blocks.insert(datasets::layer_block(layer.name));
  blocks.erase(-1);
  std::vector<datasets::WeightLayer> block = layers;
  std::erase_if(block, [](const datasets::WeightLayer& layer) { return datasets::layer_block(layer.name) < 0; });
  const int64_t of_block = elements_of(block, rows), rest = elements_of(layers, rows) - of_block;
  if (blocks.empty() || of_block == 0) return 1;
  // Codes of bytes take at least about half a byte an element, and a pass over four caches comes from memory.
  const int64_t wanted = (8 * cache_bytes - rest + of_block - 1) / of_block;
  return std::clamp<int64_t>(wanted, 1, std::min<int64_t>(kMostCopies, static_cast<int64_t>(blocks.size())));
}

// Lossless codecs that have a fused float product there, or a decoder built for speed. The uncompressed ones come
// first: if time runs out, there is something to compare with.
std::vector<std::string> quick_codecs(const std::string& backend) {
  const std::string place = backends::find_backend(backend) == nullptr ? "simd" : backend;  // "best", or a misspelt one
  std::vector<std::string> ids;
  for (const codecs::CodecEntry& entry : codecs::all_codecs())
    if (entry.codec->lossless && std::ranges::any_of(entry.kernels(place), [](const backends::Kernel& kernel) {
          return kernel.op == backends::Op::matmul || kernel.op == backends::Op::decode;
        }))
      ids.emplace_back(entry.id);
  std::ranges::stable_partition(ids, is_uncompressed);
  return ids;
}

// Codecs with the settings that the file was made for.
void append_tuned(const std::string& file, std::vector<std::string>& codecs) {
  for (const TunedEntry& entry : read_tuned(file, codecs::all_codecs())) {
    std::string codec = entry.key.codec;
    for (const auto& [name, value] : entry.key.asked)
      codec += fmt::format("{}{}={}", codec == entry.key.codec ? ":" : ",", name, value);
    if (codecs::find_codec(entry.key.codec) != nullptr && std::ranges::find(codecs, codec) == codecs.end())
      codecs.push_back(codec);
  }
}

}  // namespace

std::string measured_type(const std::string& dtype) {
  if (datasets::find_block_format(dtype) != nullptr || datasets::find_packed_type(dtype) != nullptr) return "";
  if (dtype == "F32" || dtype == "F16" || dtype == "F64") return "bf16";
  const auto type = datasets::matrix_type(dtype);
  return type ? std::string(datasets::element_type_name(*type)) : "";
}

Experiment sample_experiment(const SampleRequest& request, const datasets::WeightLayers& weights) {
  const std::vector<datasets::WeightLayer> layers = sampled(weights);
  const int64_t rows = rows_of(layers);
  AdHoc options;
  options.source = weights.source;
  options.parameters = {weights.parameter + "=" + request.path};
  if (weights.source == "model") options.parameters.push_back("blocks=1");
  if (rows < kMostRows) options.parameters.push_back("rows=" + std::to_string(rows));
  if (measured_type(weights.layers.front().dtype) == "bf16" && weights.layers.front().dtype != "BF16")
    options.parameters.emplace_back("type=bf16");
  if (!request.elements.empty()) options.parameters.push_back("elements=" + request.elements);
  if (!request.quantisers.empty()) {
    options.quantisers = {"none"};
    options.quantisers.insert(options.quantisers.end(), request.quantisers.begin(), request.quantisers.end());
  }
  options.codecs = request.codecs.empty() ? quick_codecs(request.backend) : request.codecs;
  if (request.codecs.empty() && !request.tuned.empty()) append_tuned(request.tuned, options.codecs);
  options.kernels = {
      {"op", {"step"}},
      {"backend", {request.backend}},
      {"batch", {request.batch}},
      {"repeat", {std::to_string(copies_of(weights, layers, rows, largest_cache({&request.backend, 1})))}}};
  if (!request.activations.empty()) options.kernels["activations"] = {request.activations};
  if (!request.threads.empty()) options.kernels["threads"] = {request.threads};
  if (!request.device.empty()) options.kernels["device"] = {request.device};
  options.repetitions = "5";
  options.min_time = "0.05";
  Experiment experiment = ad_hoc_experiment(options, {.tuned = request.tuned});
  experiment.name = "advise";
  experiment.measure.max_seconds = 5;
  return experiment;
}

}  // namespace ecmv::experiments
