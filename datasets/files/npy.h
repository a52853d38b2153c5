// Reader of .npy files (versions 1, 2 and 3): one array, a header that is a Python dictionary, then the elements. Only
// little-endian numbers are read; others are refused with the reason.
#pragma once

#include <span>

#include "datasets/tensor.h"

namespace ecmv::datasets {

bool looks_like_npy(std::span<const std::byte> bytes);

// A view into `bytes`, named `name`; column-major arrays have the layout `columns`. Throws DatasetError for a malformed
// header, more than 64 dimensions, big-endian, structured or object elements, and missing or surplus bytes.
TensorView parse_npy(std::span<const std::byte> bytes, const std::string& name);

}  // namespace ecmv::datasets
