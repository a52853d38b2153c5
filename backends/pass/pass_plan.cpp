// See pass_plan.h.
#include "backends/pass/pass_plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ecmv::backends {

namespace {

// Why the plan's parts make no sense, as a sentence; "" if they do. Without ranks there are none.
std::string why_no_parts(const PassPlan& plan) {
  if (plan.ranks == nullptr) return plan.splits.empty() ? "" : "Layers are split among ranks, and there are none.";
  const size_t layers = plan.layers.size(), rank = static_cast<size_t>(plan.ranks->rank());
  if (plan.op == Op::decode || plan.parts.size() != layers || !plan.weight_scales.empty())
    return "Ranks share products without scales of elements, and every layer has its parts.";
  if (!plan.splits.empty() && (plan.op != Op::matmul || plan.splits.size() != layers))
    return "Only float products keep or add up what ranks have of a layer, and then every layer says how.";
  for (size_t i = 0; i < layers; ++i) {
    const datasets::Shape& shape = plan.layers[i]->view().shape;
    const std::vector<int64_t>& parts = plan.parts[i];
    const int64_t own = split_of(plan, i) == Split::cols ? shape.cols : shape.rows;
    if (parts.size() != static_cast<size_t>(plan.ranks->count()) + 1 || parts[rank + 1] - parts[rank] != own)
      return "A rank's part of a layer is not the one that the plan says.";
  }
  return {};
}

}  // namespace

bool any_unfused(const PassPlan& plan) {
  for (size_t layer = 0; layer < plan.layers.size(); ++layer)
    if (unfused(plan, layer)) return true;
  return false;
}

const datasets::Scales* scales_of(const PassPlan& plan, size_t layer) {
  const bool has = plan.op == Op::matmul && !plan.weight_scales.empty() && !plan.weight_scales[layer]->empty();
  return has ? plan.weight_scales[layer] : nullptr;
}

bool scales_rows(const PassPlan& plan, size_t layer) {
  const Kernel* kernel = chosen_kernel(plan, layer).kernel;
  const bool in_kernel = kernel != nullptr && kernel->op == Op::matmul && kernel->group_cols != 0;
  const datasets::Scales* scales = scales_of(plan, layer);
  return scales != nullptr && scales->one_a_row() && !in_kernel;
}

int64_t all_cols(const PassPlan& plan, size_t layer) {
  const bool split = plan.ranks != nullptr && split_of(plan, layer) == Split::cols;
  return split ? plan.parts[layer].back() : plan.layers[layer]->view().shape.cols;
}

std::span<const float> own_token(const PassPlan& plan, size_t layer, int token) {
  const bool split = plan.ranks != nullptr && split_of(plan, layer) == Split::cols;
  const int64_t first = split ? plan.parts[layer][static_cast<size_t>(plan.ranks->rank())] : 0;
  return std::span(plan.tokens[layer])
      .subspan(static_cast<size_t>(token * all_cols(plan, layer) + first),
               static_cast<size_t>(plan.layers[layer]->view().shape.cols));
}

std::vector<float> own_tokens(const PassPlan& plan, size_t layer) {
  std::vector<float> tokens;
  for (int token = 0; token < plan.batch; ++token) {
    const std::span<const float> own = own_token(plan, layer, token);
    tokens.insert(tokens.end(), own.begin(), own.end());
  }
  return tokens;
}

std::vector<int64_t> places_of_products(const PassPlan& plan, size_t layer) {
  constexpr int64_t kAlign = 256;
  const std::vector<int64_t>& first_rows = plan.parts[layer];
  std::vector<int64_t> places = {0};
  for (size_t rank = 0; rank + 1 < first_rows.size(); ++rank) {
    const int64_t bytes = plan.batch * (first_rows[rank + 1] - first_rows[rank]) * static_cast<int64_t>(sizeof(float));
    places.push_back(places.back() + (bytes + kAlign - 1) / kAlign * kAlign);
  }
  return places;
}

void check_plan(const PassPlan& plan) {
  if (const std::string reason = why_no_parts(plan); !reason.empty()) throw std::invalid_argument(reason);
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
    bool fits = plan.tokens.size() == layers && plan.batch >= 1 && plan.batch <= kMostTokens;
    for (size_t i = 0; i < layers && fits; ++i)
      fits = static_cast<int64_t>(plan.tokens[i].size()) == plan.batch * all_cols(plan, i);
    if (!fits)
      throw std::invalid_argument("A float product needs a batch of 1 to " + std::to_string(kMostTokens) +
                                  " tokens for every layer.");
    if (!plan.weight_scales.empty() && plan.weight_scales.size() != layers)
      throw std::invalid_argument("A product of quantised matrices needs the scales of every layer.");
    for (size_t i = 0; i < layers; ++i) {
      const Kernel* kernel = chosen_kernel(plan, i).kernel;
      if (kernel != nullptr && kernel->op == Op::matmul && kernel->activations != plan.activations)
        throw std::invalid_argument("The kernel takes other activations than the plan has.");
    }
    const datasets::Scales none;
    for (size_t i = 0; i < layers; ++i) {
      const Kernel* kernel = chosen_kernel(plan, i).kernel;
      const datasets::Scales& scales = plan.weight_scales.empty() ? none : *plan.weight_scales[i];
      if (kernel != nullptr && kernel->op == Op::matmul && !takes_scales(*kernel, scales))
        throw std::invalid_argument("The kernel takes other scales than the layer has.");
    }
  }
  if (!plan.kernels.empty() && (plan.op != Op::matmul || plan.kernels.size() != layers))
    throw std::invalid_argument("Only a float product has kernels by layer, and then every layer has one.");
}

}  // namespace ecmv::backends
