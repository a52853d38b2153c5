// Layers that take the same input, joined by rows: q, k and v of a block are one matrix, gate and up another. Inference
// engines hold them so, for fewer and larger products: a layer of a few million weights is over before a device is
// busy.
#pragma once

#include "datasets/source.h"

namespace ecmv::datasets {

inline constexpr const char* kScalesAreNotJoined = "Layers whose weights have scales of their own are not joined.";

// Joins q, k and v, and gate and up, of each block where they follow each other in `dataset` with as many columns of
// one type, and a name for both together is known. Rows are in the order of the layers. Throws DatasetError where
// layers have scales of their own.
void join_layers(Dataset& dataset);

}  // namespace ecmv::datasets
