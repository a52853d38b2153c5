// The parts of quantised weights that a file has as tensors of their own: elements or packed codes beside scales, zero
// points, permutations and code books. They are recognised by their names and shapes, as fp8 checkpoints with block
// scales, compressed-tensors, ModelOpt, MXFP4, GPTQ, AWQ, bitsandbytes and MLX have them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/layers/model_shape.h"
#include "datasets/tensor.h"

namespace ecmv::datasets {

// Whether the last part of a name is a word for scales, zero points and the like: "weight_scale_inv", "qzeros".
bool is_scale_word(std::string_view last_part);

// Gives tensors of codes their true type and shape ("GPTQ_INT4" [outputs, inputs] for I32 words), and every quantised
// tensor the others that belong to it. `groups` is asked at most once, for words whose bits the file alone leaves open.
// Returns sentences about what was assumed.
std::vector<std::string> find_quantised_weights(std::vector<TensorView>& tensors,
                                                const std::function<QuantisedGroups()>& groups);

}  // namespace ecmv::datasets
