// See pass_plan.h.
#include "backends/pass_plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ecmv::backends {

void check_plan(const PassPlan& plan) {
  if (plan.ranks != nullptr &&
      (plan.op == Op::decode || plan.parts.size() != plan.layers.size() || !plan.weight_scales.empty()))
    throw std::invalid_argument("Ranks share products without scales of elements, and every layer has its parts.");
  const size_t layers = plan.layers.size();
  if (plan.op == Op::matvec) {
    const size_t inputs = plan.chained ? std::min<size_t>(layers, 1) : layers;
    bool fits = plan.inputs.size() >= inputs && plan.scales.size() >= layers;
    for (size_t i = 0; i < layers && fits; ++i) {
      const int64_t cols = plan.layers[i]->view().shape.cols;
      fits = cols == (plan.chained && i > 0 ? vector_rows(plan, i - 1)
                                            : static_cast<int64_t>(plan.inputs[plan.chained ? 0 : i].size()));
    }
    if (!fits)
      throw std::invalid_argument(
          "A chain of products needs an input, a scale for every layer, and layers that fit together.");
  } else if (plan.op == Op::matmul) {
    bool fits = plan.tokens.size() == layers && plan.batch >= 1 && plan.batch <= kMaxBatch;
    for (size_t i = 0; i < layers && fits; ++i)
      fits = static_cast<int64_t>(plan.tokens[i].size()) == plan.batch * plan.layers[i]->view().shape.cols;
    if (!fits)
      throw std::invalid_argument("A float product needs a batch of 1 to " + std::to_string(kMaxBatch) +
                                  " tokens for every layer.");
    if (!plan.weight_scales.empty() && plan.weight_scales.size() != layers)
      throw std::invalid_argument("A product of quantised matrices needs the scales of every layer.");
    for (size_t i = 0; i < layers; ++i) {
      const Kernel* kernel = chosen_kernel(plan, i).kernel;
      if (kernel != nullptr && kernel->op == Op::matmul && kernel->activations != plan.activations)
        throw std::invalid_argument("The kernel takes other activations than the plan has.");
    }
    for (size_t i = 0; i < plan.weight_scales.size(); ++i) {
      const Kernel* kernel = chosen_kernel(plan, i).kernel;
      const datasets::Scales& scales = *plan.weight_scales[i];
      if (kernel != nullptr && kernel->op == Op::matmul && !scales.empty() && !scales.one_a_row())
        throw std::invalid_argument("A fused product has one sum a row and takes no scales of groups.");
    }
  }
  if (!plan.kernels.empty() && (plan.op != Op::matmul || plan.kernels.size() != layers))
    throw std::invalid_argument("Only a float product has kernels by layer, and then every layer has one.");
}

}  // namespace ecmv::backends
