// The weights of the source `llm_like`, for sources that use other shapes and names.
#pragma once

#include "datasets/matrix.h"

namespace ecmv::datasets {

// bf16, named layer_<layer>; each layer of a seed is drawn independently.
Matrix llm_like_weights(Shape shape, uint64_t seed, int layer);

}  // namespace ecmv::datasets
