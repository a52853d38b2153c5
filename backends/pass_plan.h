// What a plan says of its layers, and whether it makes sense; for pass.cpp and its parts.
#pragma once

#include "backends/pass.h"

namespace ecmv::backends {

inline ChosenKernel chosen_kernel(const PassPlan& plan, size_t layer) {
  return plan.kernels.empty() ? ChosenKernel(plan) : plan.kernels[layer];
}

inline Split split_of(const PassPlan& plan, size_t layer) {
  return plan.splits.empty() ? Split::rows_gathered : plan.splits[layer];
}

// Elements of a layer's vector that this rank has after the layer: more than its rows where ranks gather them.
inline int64_t vector_rows(const PassPlan& plan, size_t layer) {
  const bool gathers = plan.ranks != nullptr && split_of(plan, layer) == Split::rows_gathered;
  return gathers ? plan.parts[layer].back() : plan.layers[layer]->view().shape.rows;
}

// Whether a layer is decoded first and multiplied then: it has no kernel for the product.
inline bool unfused(const PassPlan& plan, size_t layer) {
  const Kernel* kernel = chosen_kernel(plan, layer).kernel;
  return plan.op != Op::decode && (kernel == nullptr || kernel->op == Op::decode);
}
bool any_unfused(const PassPlan& plan);

// Whether the plan's kernel takes chains as a whole; it does so where they are `chained`.
inline bool takes_chains(const PassPlan& plan) { return plan.kernel != nullptr && plan.kernel->whole_chain; }

// What a layer's tokens are in memory.
inline Activations in_memory(const PassPlan& plan, size_t layer) {
  return unfused(plan, layer) ? Activations::f32 : plan.activations;
}

// The scales of a quantised layer, null without any; and whether a step of its own applies them to the sums.
const datasets::Scales* scales_of(const PassPlan& plan, size_t layer);
bool scales_rows(const PassPlan& plan, size_t layer);

// Whether ranks gather what a layer gives.
inline bool gathers(const PassPlan& plan, size_t layer) {
  return plan.ranks != nullptr && split_of(plan, layer) == Split::rows_gathered;
}

// Columns of a layer, of all ranks.
int64_t all_cols(const PassPlan& plan, size_t layer);

// A token's numbers that this rank multiplies the layer with; and all tokens', [batch, its columns].
std::span<const float> own_token(const PassPlan& plan, size_t layer, int token);
std::vector<float> own_tokens(const PassPlan& plan, size_t layer);

// Bytes at which the ranks' products of a layer begin where they are gathered, each aligned like a buffer of its own,
// and at which the last ones end.
std::vector<int64_t> places_of_products(const PassPlan& plan, size_t layer);

// Throws std::invalid_argument for a plan whose parts do not fit together.
void check_plan(const PassPlan& plan);

}  // namespace ecmv::backends
