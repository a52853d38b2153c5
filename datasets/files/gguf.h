// Reader of GGUF files (versions 2 and 3, little-endian): a header, key-value pairs, descriptions of the tensors, and
// their bytes. Everything that it returns lies inside the given bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "datasets/tensor.h"

namespace ecmv::datasets {

bool looks_like_gguf(std::span<const std::byte> bytes);

// Views into `bytes`, in the order of their bytes. As in other formats the innermost size comes last in a shape. Plain
// element types have the names of safetensors, block formats GGUF's ("Q8_0"; unpack.h lists the ones that can be
// unpacked). Throws DatasetError for truncation, other versions, big-endian files, unknown types of values and tensors,
// more than 200000 tensors, doubled names, and tensors that overlap, lie outside of the file or are not aligned.
std::vector<TensorView> parse_gguf(std::span<const std::byte> bytes);

}  // namespace ecmv::datasets
