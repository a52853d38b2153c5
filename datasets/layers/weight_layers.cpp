// See weight_layers.h.
#include "datasets/layers/weight_layers.h"

#include <algorithm>
#include <filesystem>

#include "datasets/layers/prepare.h"
#include "datasets/layers/unpack.h"
#include "datasets/source.h"

namespace ecmv::datasets {

constexpr size_t kMostLayers = 1'000'000;  // of a plan, which has no elements

void append_layers(const TensorView& tensor, std::vector<WeightLayer>& layers, WeightLayers& facts) {
  for (const std::span<const std::byte> one : tensor.beside) facts.bytes_beside += int64_t(one.size());
  const auto [matrices, shape, is_stack] = matrices_of(tensor.name, tensor.shape);
  const int64_t bytes = (stored_bytes(tensor) + bytes_beside(tensor)) / std::max<int64_t>(1, matrices);
  if (layers.size() + size_t(matrices) > kMostLayers)
    throw DatasetError("It has more than " + std::to_string(kMostLayers) + " matrices.");
  for (int64_t i = 0; i < matrices; ++i)
    layers.push_back({tensor.name, layer_kind(tensor.name), shape, tensor.dtype, bytes});
}

namespace {

WeightLayers layers_of(const std::string& path) {
  WeightLayers found;
  found.source = found.parameter = "model";
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  try {
    found.layers = model_layers(path, found);
    return found;
  } catch (const DatasetError&) {
    if (!exists || found.drawn) throw;
  }
  WeightLayers others{.source = "weights", .parameter = "file"};
  others.layers = file_layers(path, others);
  return others;
}

}  // namespace

WeightLayers weight_layers(const std::string& path) {
  WeightLayers found = layers_of(path);
  if (found.bytes_beside > 0) found.remarks.push_back(remark_on_beside(found.bytes_beside));
  return found;
}

}  // namespace ecmv::datasets
