// Joins layers with the same input by rows: q, k and v of a block become one matrix, gate and up another. Inference
// engines do so for fewer and larger products: a layer of a few million weights ends before a device is busy.
#pragma once

#include "datasets/source.h"

namespace ecmv::datasets {

inline constexpr const char* kScalesAreNotJoined = "Layers whose weights have scales of their own are not joined.";

// Joins q, k and v, and gate and up, of each block if they follow each other in `dataset` with as many columns and the
// same type, and if a name for all of them is known. Rows keep the order of the layers. Throws DatasetError if layers
// have scales of their own.
void join_layers(Dataset& dataset);

}  // namespace ecmv::datasets
