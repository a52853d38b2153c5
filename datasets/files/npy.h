// Reader of .npy files (versions 1, 2 and 3): a header that is a Python dictionary, then the elements of an array; a
// file may have several, one after the other, as repeated calls of numpy.save write them.
#pragma once

#include <span>
#include <vector>

#include "datasets/tensor.h"

namespace ecmv::datasets {

bool looks_like_npy(std::span<const std::byte> bytes);

// Views into `bytes`, named "array", "array.1", ...; column-major arrays have the layout `columns`. Throws DatasetError
// for a malformed header, more than 64 dimensions, structured or object elements, and missing or surplus bytes.
std::vector<TensorView> parse_npy(std::span<const std::byte> bytes);

}  // namespace ecmv::datasets
