// What a plan says of its layers, and whether it makes sense; for pass.cpp.
#pragma once

#include "backends/pass.h"

namespace ecmv::backends {

inline Split split_of(const PassPlan& plan, size_t layer) {
  return plan.splits.empty() ? Split::rows_gathered : plan.splits[layer];
}

// Elements of a layer's vector that this rank has after the layer: more than its rows where ranks gather them.
inline int64_t vector_rows(const PassPlan& plan, size_t layer) {
  const bool gathers = plan.ranks != nullptr && split_of(plan, layer) == Split::rows_gathered;
  return gathers ? plan.parts[layer].back() : plan.layers[layer]->view().shape.rows;
}

// Columns of a layer, of all ranks.
int64_t all_cols(const PassPlan& plan, size_t layer);

// A token's numbers that this rank multiplies the layer with; and those of all tokens, [batch, its columns].
std::span<const float> own_token(const PassPlan& plan, size_t layer, int token);
std::vector<float> own_tokens(const PassPlan& plan, size_t layer);

// Bytes at which the ranks' products of a layer begin where they are gathered, each aligned like a buffer of its own, and
// at which the last ones end.
std::vector<int64_t> places_of_products(const PassPlan& plan, size_t layer);

inline ChosenKernel chosen_kernel(const PassPlan& plan, size_t layer) {
  return plan.kernels.empty() ? ChosenKernel(plan) : plan.kernels[layer];
}

// Throws std::invalid_argument for a plan whose parts do not fit together.
void check_plan(const PassPlan& plan);

}  // namespace ecmv::backends
