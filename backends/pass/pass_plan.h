// Facts of a plan's layers, and whether the plan makes sense; for pass.cpp and its parts.
#pragma once

#include "backends/pass.h"

namespace ecmv::backends {

inline ChosenKernel chosen_kernel(const PassPlan& plan, size_t layer) {
  return plan.kernels.empty() ? ChosenKernel(plan) : plan.kernels[layer];
}

inline Split split_of(const PassPlan& plan, size_t layer) {
  return plan.splits.empty() ? Split::rows_gathered : plan.splits[layer];
}

// Elements of the layer's vector on this rank after the layer: more than its rows where ranks gather.
inline int64_t vector_rows(const PassPlan& plan, size_t layer) {
  const bool gathers = plan.ranks != nullptr && split_of(plan, layer) == Split::rows_gathered;
  return gathers ? plan.parts[layer].back() : plan.layers[layer]->view().shape.rows;
}

// Whether a layer is decoded first and then multiplied, because it has no kernel for the product.
inline bool unfused(const PassPlan& plan, size_t layer) {
  const Kernel* kernel = chosen_kernel(plan, layer).kernel;
  return plan.op != Op::decode && (kernel == nullptr || kernel->op == Op::decode);
}
bool any_unfused(const PassPlan& plan);

// Whether the plan's kernel takes whole chains, which it does for `chained` plans.
inline bool takes_chains(const PassPlan& plan) { return plan.kernel != nullptr && plan.kernel->whole_chain; }

// The scales of a quantised layer, else null; and whether a step of its own applies them to the sums.
const datasets::Scales* scales_of(const PassPlan& plan, size_t layer);
bool scales_rows(const PassPlan& plan, size_t layer);

// Whether ranks gather the layer's results.
inline bool gathers(const PassPlan& plan, size_t layer) {
  return plan.ranks != nullptr && split_of(plan, layer) == Split::rows_gathered;
}

// Columns of a layer over all ranks.
int64_t all_cols(const PassPlan& plan, size_t layer);

// The part of a token that this rank multiplies the layer with; and that of all tokens, [batch, its columns].
std::span<const float> own_token(const PassPlan& plan, size_t layer, int token);
std::vector<float> own_tokens(const PassPlan& plan, size_t layer);

// Bytes at which the ranks' gathered products of a layer begin, each aligned like a buffer of its own, and the end.
std::vector<int64_t> places_of_products(const PassPlan& plan, size_t layer);

// Throws std::invalid_argument for a plan whose parts do not fit together.
void check_plan(const PassPlan& plan);

}  // namespace ecmv::backends
