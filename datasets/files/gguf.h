// Reader of GGUF files (versions 2 and 3, little-endian): a header, key-value pairs, descriptions of the tensors, and
// their bytes. Everything that it returns lies inside the given bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "datasets/tensor.h"

namespace ecmv::datasets {

bool looks_like_gguf(std::span<const std::byte> bytes);

// Models above a size come as several files: this one is number `part` of `parts`, counted from 0.
struct GgufSplit {
  uint64_t part = 0, parts = 1;
};

// Views into `bytes`, in the order of their bytes. As in other formats the innermost size comes last in a shape. Plain
// element types have the names of safetensors, block formats GGUF's ("Q8_0"; block_formats.h lists the ones that can be
// unpacked). A type that is not known has its number as its name, "GGML_42", and all bytes up to the next tensor.
// Throws DatasetError for truncation, other versions, big-endian files, unknown types of values, more than 200000
// tensors, doubled names, and tensors that overlap, lie outside of the file or are not aligned.
std::vector<TensorView> parse_gguf(std::span<const std::byte> bytes, GgufSplit* split = nullptr);

}  // namespace ecmv::datasets
