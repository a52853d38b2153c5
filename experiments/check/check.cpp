// See check.h.
#include "experiments/check/check.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "backends/pass/rounding_limits.h"
#include "experiments/check/first_difference.h"

namespace ecmv::experiments {
namespace {

using reports::Status;

std::string compare_decoded(backends::Pass& pass, const datasets::Matrix& matrix, size_t layer) {
  return first_difference<int8_t>(pass.decoded(), matrix.view().i8(), row_bytes(matrix), "the decoded matrix", layer);
}

std::string compare_product(backends::Pass& pass, const ReferenceChain& chain, size_t layer) {
  std::string difference =
      first_difference<int32_t>(pass.accumulators(static_cast<int>(layer)), chain.accumulators[layer], 1, "W x", layer);
  if (difference.empty())
    difference = first_difference<int8_t>(pass.outputs(static_cast<int>(layer)), chain.outputs[layer], 1,
                                          "the requantised vector", layer);
  return difference;
}

// One layer of a float product. `what` names it.
void compare_floats(backends::Pass& pass, const backends::ExactProduct& expected, size_t layer, std::string_view what,
                    OutputCheck& check, bool all_threads = true) {
  const int index = static_cast<int>(layer);
  const backends::ProductRounding rounding = pass.rounding(index);
  const backends::ProductCheck product = backends::check_product(pass.products(index), expected, rounding, all_threads);
  const double limit = backends::typical_error_limit(rounding, expected.terms);
  if (!product.violation.empty())
    check.outputs = fmt::format("layer {}{}: {}", layer, what, product.violation);
  else if (product.typical > limit)
    check.outputs = fmt::format(
        "layer {}{}: each result keeps its bound, but together they are off by {:.2g} of what they are (root mean "
        "square), more than the {:.2g} that the kernel's roundings explain",
        layer, what, product.typical, limit);
  check.bound_used = std::max(check.bound_used, product.used);
  if (check.widening.empty()) check.widening = backends::widening_of(rounding);
}

void compare_layer(backends::Pass& pass, backends::Op op, const Reference& reference, size_t layer, OutputCheck& check,
                   bool all_threads = true) {
  if (op == backends::Op::decode)
    check.outputs = compare_decoded(pass, (*reference.matrices)[reference.matrix_of(layer)], layer);
  else if (op == backends::Op::matvec)
    check.outputs = compare_product(pass, *reference.chain, layer);
  else
    compare_floats(pass, reference.floats->products().layers[reference.matrix_of(layer)], layer, "", check,
                   all_threads);
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

bool contains_poison(const datasets::Matrix& matrix) {
  const auto elements = matrix.view().i8();
  return std::find(elements.begin(), elements.end(), int8_t{-128}) != elements.end();
}

}  // namespace

OutputCheck check_every_layer(backends::Pass& pass, backends::Op op, const Reference& reference) {
  const std::vector<datasets::Matrix>& matrices = *reference.matrices;
  const size_t layers = reference.layers();
  const bool decodes = op == backends::Op::decode;
  const bool two_rounds = decodes && std::any_of(matrices.begin(), matrices.end(), contains_poison);
  OutputCheck check;
  for (int round = 0; round < (two_rounds ? 2 : 1) && check.fine(); ++round) {
    if (!decodes) pass.poison_outputs(round);
    for (size_t layer = 0; layer < layers && check.outputs.empty(); ++layer) {
      if (decodes) pass.poison_outputs(round);
      pass.run_layer(static_cast<int>(layer));
      compare_layer(pass, op, reference, layer, check);
    }
    check.guards = pass.broken_guards();
  }
  return check;
}

OutputCheck check_probes(const PreparePass& prepare, backends::Device& device, backends::PassPlan plan,
                         const Reference& reference) {
  constexpr int kMostPasses = 4;
  const ReferenceProducts& probes = reference.floats->probes();
  const size_t layers = probes.batch == 0 ? 0 : reference.layers();
  OutputCheck check;
  const int passes = std::min((probes.batch + plan.batch - 1) / plan.batch, kMostPasses);
  for (int number = 0; number < passes && check.fine(); ++number) {
    std::vector<backends::ExactProduct> expected;
    plan.tokens.clear();
    for (size_t layer = 0; layer < layers; ++layer) {
      const size_t matrix = reference.matrix_of(layer);
      const auto cols = probes.layers[matrix].shape.cols;
      std::vector<int> chosen;
      std::vector<float>& tokens = plan.tokens.emplace_back();
      for (int token = 0; token < plan.batch; ++token) {
        chosen.push_back(
            static_cast<int>(((static_cast<int64_t>(layer) * passes + number) * plan.batch + token) % probes.batch));
        const auto first = probes.tokens[matrix].begin() + chosen.back() * cols;
        tokens.insert(tokens.end(), first, first + cols);
      }
      expected.push_back(backends::chosen_tokens(probes.layers[matrix], chosen));
    }
    const auto pass = prepare(device, plan);
    pass->poison_outputs(0);
    for (size_t layer = 0; layer < expected.size() && check.outputs.empty(); ++layer) {
      pass->run_layer(static_cast<int>(layer));
      compare_floats(*pass, expected[layer], layer, ", sparse tokens", check);
    }
    check.guards = pass->broken_guards();
  }
  return check;
}

OutputCheck check_subnormal_tokens(const PreparePass& prepare, backends::Device& device, backends::PassPlan plan,
                                   const Reference& reference) {
  const SubnormalTokens& tokens = reference.floats->subnormal_tokens();
  OutputCheck check;
  size_t chosen = 0;
  while (chosen < reference.layers() && reference.matrix_of(chosen) != tokens.matrix) ++chosen;
  if (chosen == reference.layers() || !tokens.products.refused.empty()) return check;
  plan.tokens.clear();
  for (size_t layer = 0; layer < reference.layers(); ++layer) {
    const int64_t cols = (*reference.matrices)[reference.matrix_of(layer)].shape.cols;
    plan.tokens.emplace_back(static_cast<size_t>(plan.batch * cols));
  }
  plan.tokens[chosen] = tokens.products.first_tokens(plan.batch).front();
  const auto pass = prepare(device, plan);
  pass->poison_outputs(0);
  pass->run_layer(static_cast<int>(chosen));
  compare_floats(*pass, tokens.products.layers.front(), chosen, ", subnormal tokens", check);
  check.guards = pass->broken_guards();
  return check;
}

OutputCheck check_extremes(const PreparePass& prepare, backends::Device& device, backends::PassPlan plan,
                           const Reference& reference) {
  Reference extreme = reference;
  extreme.chain = reference.chain->extremes;
  if (extreme.chain == nullptr) return {};
  plan.inputs = extreme.chain->inputs;
  plan.scales = extreme.chain->scales;
  const auto pass = prepare(device, plan);
  OutputCheck check;
  for (; check.fine() && extreme.chain != nullptr; extreme.chain = extreme.chain->extremes) {
    set_inputs(*pass, plan.op, extreme, plan.batch);
    pass->poison_outputs(0);
    for (size_t layer = 0; layer < extreme.layers() && check.outputs.empty(); ++layer) {
      pass->run_layer(static_cast<int>(layer));
      compare_layer(*pass, plan.op, extreme, layer, check);
    }
  }
  check.guards = pass->broken_guards();
  if (!check.outputs.empty()) check.outputs = "extreme inputs, " + check.outputs;
  return check;
}

OutputCheck check_layer(backends::Pass& pass, backends::Op op, const Reference& reference, size_t layer,
                        bool all_threads) {
  OutputCheck check;
  compare_layer(pass, op, reference, layer, check, all_threads);
  return check;
}

OutputCheck check_last_pass(backends::Pass& pass, backends::Op op, const Reference& reference, size_t layers) {
  OutputCheck check;
  for (size_t layer = op == backends::Op::decode && layers > 0 ? layers - 1 : 0;
       layer < layers && check.outputs.empty(); ++layer)
    compare_layer(pass, op, reference, layer, check);
  check.guards = pass.broken_guards();
  return check;
}

void set_inputs(backends::Pass& pass, backends::Op op, const Reference& reference, int batch) {
  if (op == backends::Op::matvec) {
    const std::vector<std::vector<int8_t>>& inputs = reference.chain->inputs;
    for (size_t i = 0; i < inputs.size(); ++i) pass.set_input(static_cast<int>(i), bytes_of(inputs[i]));
  } else if (op == backends::Op::matmul) {
    const std::vector<std::vector<float>> tokens = reference.floats->products().first_tokens(batch);
    for (size_t layer = 0; layer < reference.layers(); ++layer)
      pass.set_input(static_cast<int>(layer), bytes_of(tokens[reference.matrix_of(layer)]));
  }
}

Outcome check_result(const backends::Pass& pass, backends::Op op, const Reference& reference, int round) {
  const std::span<const std::byte> result = pass.result();
  const auto wrong = [](std::string_view what) {
    return Outcome{Status::incorrect, fmt::format("{} of a timed pass is wrong, though earlier ones were right", what)};
  };
  if (result.empty()) return {};
  if (op == backends::Op::matvec) {
    return std::ranges::equal(result, bytes_of(reference.chain->outputs.back())) ? Outcome{}
                                                                                 : wrong("the requantised vector");
  }
  if (op == backends::Op::matmul) {
    const auto* floats = reinterpret_cast<const float*>(result.data());
    bool nan = false;  // without an early end, so that the compiler vectorises
    for (size_t i = 0; i < result.size() / sizeof(float); ++i) nan |= floats[i] != floats[i];
    return nan ? wrong("the product") : Outcome{};
  }
  const std::vector<std::byte>& expected = reference.matrices->back().elements;
  for (const int64_t first : {int64_t{0}, backends::first_mark(round, static_cast<int64_t>(result.size()))})
    for (auto at = static_cast<size_t>(first); at < result.size(); at += backends::kMarkStride)
      if (std::memcmp(result.data() + at, expected.data() + at,
                      std::min<size_t>(backends::kMarkBytes, result.size() - at)) != 0)
        return wrong("the decoded matrix");
  return {};
}

}  // namespace ecmv::experiments
