// What the nodes of an ONNX model say of its tensors: which are codes of quantised weights, and which are their scales
// and zero points, whatever their names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/tensor.h"

namespace ecmv::datasets {

struct OnnxNode {
  std::string op;
  std::vector<std::string> inputs;
  std::map<std::string, int64_t> numbers;  // attributes that are integers
};

// Whether nodes of this op say something.
bool tells_of_weights(std::string_view op);

// Gives codes of MatMulNBits their true type and shape ("UINT4" [outputs, inputs]), and weights their scales and zero
// points.
void apply_onnx_nodes(const std::vector<OnnxNode>& nodes, std::vector<TensorView>& tensors);

}  // namespace ecmv::datasets
