// See weight_layers.h.
#include "datasets/layers/weight_layers.h"

#include <algorithm>
#include <filesystem>

#include "datasets/source.h"

namespace ecmv::datasets {

void append_layers(const TensorView& tensor, std::vector<WeightLayer>& layers) {
  const auto [matrices, shape, is_stack] = matrices_of(tensor.shape);
  const int64_t bytes = tensor_bytes(tensor.name, tensor.dtype, tensor.shape) / std::max<int64_t>(1, matrices);
  expect_few_matrices(layers.size() + size_t(matrices));
  for (int64_t i = 0; i < matrices; ++i)
    layers.push_back({tensor.name, layer_kind(tensor.name), shape, tensor.dtype, bytes});
}

WeightLayers weight_layers(const std::string& path) {
  WeightLayers found;
  found.source = found.parameter = "model";
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  try {
    found.layers = model_layers(path, found.drawn);
    return found;
  } catch (const DatasetError&) {
    if (!exists || found.drawn) throw;
  }
  return {.source = "weights", .parameter = "file", .layers = file_layers(path)};
}

}  // namespace ecmv::datasets
