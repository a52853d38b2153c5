// Reader of the weights of ONNX models: initialisers and tensors of constants, of the graph and of graphs within it.
// ONNX is a protobuf message; the rest of it is ignored.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "datasets/files/file_bytes.h"
#include "datasets/tensor.h"

namespace ecmv::datasets {

// True if all of the bytes are a message with the fields of a model. The format has no magic.
bool looks_like_onnx(std::span<const std::byte> bytes);

// Views into `bytes`, in the order of the file, of functions too. Numbers in int32_data and the like have the layout
// `varints`. Types that the safetensors format does not know have ONNX's names, or
// "ONNX_TYPE_40"; sparse tensors are "SPARSE", with the bytes of values and places. Nodes say which are scales. Tensors
// in other files are views of these, which are added to `files`: they lie in `folder` or below it, wherever links lead.
// Throws DatasetError for cut or malformed messages, other files that are missing, too short or elsewhere, segments,
// sizes that do not match the shape, numbers that the type cannot hold, more than 200000 tensors, and graphs that are
// nested too deeply.
std::vector<TensorView> parse_onnx(std::span<const std::byte> bytes, const std::filesystem::path& folder,
                                   std::vector<FileBytes>& files);

}  // namespace ecmv::datasets
