// What a plan says of its layers, and whether it makes sense; for pass.cpp.
#pragma once

#include "backends/pass.h"

namespace ecmv::backends {

// Elements of a layer's vector: more than this rank's rows where ranks share them.
inline int64_t vector_rows(const PassPlan& plan, size_t layer) {
  return plan.ranks == nullptr ? plan.layers[layer]->view().shape.rows : plan.parts[layer].back();
}

inline ChosenKernel chosen_kernel(const PassPlan& plan, size_t layer) {
  return plan.kernels.empty() ? ChosenKernel(plan) : plan.kernels[layer];
}

// Throws std::invalid_argument for a plan whose parts do not fit together.
void check_plan(const PassPlan& plan);

}  // namespace ecmv::backends
