// The matrices of weights without their elements: `ecmv advise` plans with them.
#pragma once

#include <string>
#include <vector>

#include "datasets/layers/layer_kind.h"
#include "datasets/tensor.h"

namespace ecmv::datasets {

struct WeightLayer {
  std::string name;
  LayerKind kind = LayerKind::other;
  Shape shape;               // [outputs, inputs]
  std::string dtype;         // as in TensorView
  int64_t stored_bytes = 0;  // in the file, scales of blocks included
};

struct WeightLayers {
  std::string source, parameter;  // that gives them, and the parameter that names the weights: "model", "weights"
  bool drawn = false;             // of a shape alone
  std::vector<WeightLayer> layers = {};
  std::vector<std::string> remarks = {};  // about what is left out or missing
  int64_t bytes_beside = 0;               // of scales and zero points in tensors of their own
};

// The layers as source `model` gives them if the path (or the name of a shape) is a model, else as source `weights`
// does. Throws DatasetError.
WeightLayers weight_layers(const std::string& path);

// The same for each source by itself, with `drawn` and `remarks` in `facts`. Throws DatasetError if it gives no layers.
std::vector<WeightLayer> model_layers(const std::string& model, WeightLayers& facts);
std::vector<WeightLayer> file_layers(const std::string& path, WeightLayers& facts);

// The matrices of a tensor of two or more dimensions.
void append_layers(const TensorView& tensor, std::vector<WeightLayer>& layers, WeightLayers& facts);

}  // namespace ecmv::datasets
