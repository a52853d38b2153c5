// Unpacks what files hold to rows of elements: blocks of GGUF, packed codes, columns of Fortran, varints of protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "datasets/layers/block_formats.h"
#include "datasets/scales.h"
#include "datasets/tensor.h"

namespace ecmv::datasets {

// The type of the elements after unpacking: "I8" for blocks that can be unpacked and for packed codes, otherwise the
// type itself.
std::string_view unpacked_dtype(std::string_view dtype);

// The elements row after row: the view itself if they lie so, otherwise a view of `room`. For blocks they are the
// codes less `zero`, int8, without their scales. `codes`: packed codes and those of e2m1 stay as the file has them, so
// that the two zeros of e2m1 are apart. The tensor must have as many bytes as its type and shape take.
TensorView unpack(const TensorView& tensor, std::vector<std::byte>& room, bool codes = false);

// The scales of blocks (of F4 too, where the file has them in another tensor), and their minimums, in `room`: [...,
// cols / columns of a scale]. Throws DatasetError if the type has none.
TensorView block_scales(const TensorView& tensor, std::vector<std::byte>& room);
TensorView block_minimums(const TensorView& tensor, std::vector<std::byte>& room);

// Scales for each matrix that to_matrices makes of the tensor, with a group of columns for each scale. Scales and zero
// points that stand beside the tensor and are not applied are in `stored` alone, with `rows` 0. Nothing for a tensor
// without any. Throws DatasetError for scales that are no finite numbers.
std::vector<Scales> scales_of_matrices(const TensorView& tensor);

// Columns that share an applied scale; 0 if there is none.
int64_t scale_cols(const TensorView& tensor);

// Bytes that the tensor's elements take in a file that stores them row after row.
int64_t stored_bytes(const TensorView& tensor);

// Bytes of all scales and minimums between the elements; 0 for other elements and for blocks that are not unpacked.
int64_t scale_bytes(const TensorView& tensor);

// Bytes of the scales and zero points that the file has in tensors of their own.
int64_t bytes_beside(const TensorView& tensor);

}  // namespace ecmv::datasets
