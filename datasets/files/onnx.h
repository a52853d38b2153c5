// Reader of the weights of ONNX models: initialisers, and the tensors of constants, of the graph and of graphs within
// it. ONNX is a protobuf message; nothing else of it is looked at.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "datasets/tensor.h"

namespace ecmv::datasets {

// True if the bytes are, to their end, a message with the fields of a model. There is no magic.
bool looks_like_onnx(std::span<const std::byte> bytes);

// Views into `bytes`, in the order of the file. Numbers in int32_data and the like have the layout `varints`. Types
// that the safetensors format does not know have ONNX's names. Throws DatasetError for messages that are cut or
// malformed, tensors that are in other files or in segments, unknown types, sizes that do not match the shape, numbers
// that the type does not hold, more than 200000 tensors, and graphs that are nested too deeply.
std::vector<TensorView> parse_onnx(std::span<const std::byte> bytes);

}  // namespace ecmv::datasets
