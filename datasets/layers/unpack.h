// Unpacks what files hold to rows of elements: blocks of GGUF, columns of Fortran, varints of protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "datasets/scales.h"
#include "datasets/tensor.h"

namespace ecmv::datasets {

// Elements of a row that are stored together with what they share. A block with `bits` begins with an f16 scale, in
// some formats followed by an f16 minimum, and ends with the elements' numbers: element = scale * (number - zero), or +
// minimum.
struct BlockFormat {
  std::string_view name;
  int64_t elements = 32, bytes = 0;  // of a block
  int bits = 0;                      // of an element, 8 or 4; 0: blocks whose size is known, but that are not unpacked
  int zero = 0;
  bool has_minimum = false;
};
const BlockFormat* find_block_format(std::string_view dtype);  // nullptr: no such blocks

// The type of the elements after unpacking: "I8" for blocks that can be unpacked, otherwise the type itself.
std::string_view unpacked_dtype(std::string_view dtype);

// The elements row after row: the view itself if they lie so, otherwise a view of `room`. For blocks they are the
// numbers less `zero`, int8, without their scales. The tensor must have as many bytes as its type and shape take.
TensorView unpack(const TensorView& tensor, std::vector<std::byte>& room);

// The scales of blocks, and their minimums, in `room`: F16 [..., cols / elements of a block]. Throws DatasetError if
// the type has none.
TensorView block_scales(const TensorView& tensor, std::vector<std::byte>& room);
TensorView block_minimums(const TensorView& tensor, std::vector<std::byte>& room);

// Scales for each matrix that to_matrices makes of the tensor, with a group of columns for each block; nothing for a
// tensor without blocks. Throws DatasetError for NaN and infinities.
std::vector<Scales> scales_of_matrices(const TensorView& tensor);

// Bytes of all scales and minimums; 0 for elements without blocks and for blocks that are not unpacked.
int64_t scale_bytes(const TensorView& tensor);

}  // namespace ecmv::datasets
