// See products.h.
#include "experiments/check/products.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cpu/team.h"
#include "datasets/sources/normal_draws.h"

namespace ecmv::experiments {
namespace {

// Draws a pair of numbers from each counter. Token and column form the counter, so other tokens or layers do not change
// them.
void draw_token(uint64_t seed, uint32_t layer, int token, std::span<float> out) {
  for (size_t i = 0; i < out.size(); i += 2) {
    const auto pair = datasets::normal_pair(datasets::random_words(
        seed, layer, datasets::DrawPurpose::tokens, uint64_t{static_cast<uint32_t>(token)} << 32 | i / 2));
    out[i] = static_cast<float>(pair[0]);
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(pair[1]);
  }
}

// Tokens after the first kDrawnTokens are these again, times a number of their own. So are their products, exactly, and
// a thousand tokens have references as fast as kDrawnTokens. A kernel that takes one token for another shows.
constexpr int kDrawnTokens = backends::kMaxBatch;
double factor_of_copy(int copy, bool scales) {
  return std::ldexp(copy % 2 == 0 ? 1.0 : -1.0, scales ? -(copy / 2) : 0);
}

// `products` with `batch` tokens in place of its own, which are the first ones. Subnormal tokens only change their
// sign.
void copy_tokens(ReferenceProducts& products, int batch, bool scales) {
  for (size_t layer = 0; layer < products.layers.size(); ++layer) {
    std::vector<float>& tokens = products.tokens[layer];
    backends::ExactProduct& exact = products.layers[layer];
    const auto cols = static_cast<size_t>(exact.shape.cols), rows = static_cast<size_t>(exact.shape.rows);
    std::vector<int> numbers;
    for (int token = 0; token < batch; ++token) numbers.push_back(token % products.batch);
    exact = backends::chosen_tokens(exact, numbers);
    tokens.resize(static_cast<size_t>(batch) * cols);
    for (int token = products.batch; token < batch; ++token) {
      const double factor = factor_of_copy(token / products.batch, scales);
      const auto at = static_cast<size_t>(token), from = static_cast<size_t>(token % products.batch);
      for (size_t c = 0; c < cols; ++c) tokens[at * cols + c] = static_cast<float>(factor * tokens[from * cols + c]);
      for (size_t r = 0; r < rows; ++r) {
        exact.sums[at * rows + r] *= factor;
        exact.magnitudes[at * rows + r] *= std::fabs(factor);
        exact.norms[at * rows + r] *= std::fabs(factor);
      }
      exact.x_magnitudes[at] *= std::fabs(factor);
    }
  }
  products.batch = batch;
}

// factor(token, column): what that number is multiplied with, a power of two or zero.
template <typename Factor>
ReferenceProducts products_of(std::span<const datasets::Matrix> matrices, std::span<const datasets::Scales> scales,
                              uint64_t seed, int all, backends::Activations activations, Factor factor,
                              bool scales_copies = true) {
  const int batch = std::min(all, kDrawnTokens);
  ReferenceProducts products;
  products.batch = batch;
  products.refused = why_no_float_product(matrices);
  if (!products.refused.empty()) {
    products.batch = all;
    return products;
  }
  const backends::cpu::Team team(backends::cpu::Team::available_threads());
  for (size_t layer = 0; layer < matrices.size(); ++layer) {
    const datasets::Matrix& matrix = matrices[layer];
    std::vector<float>& tokens = products.tokens.emplace_back(static_cast<size_t>(batch * matrix.shape.cols));
    const auto cols = static_cast<size_t>(matrix.shape.cols);
    team.run([&](int thread, int threads) {
      for (int token = thread; token < batch; token += threads) {
        const auto numbers = std::span(tokens).subspan(static_cast<size_t>(token) * cols, cols);
        draw_token(seed, static_cast<uint32_t>(layer), token, numbers);
        for (size_t c = 0; c < cols; ++c) numbers[c] *= factor(token, c);
        if (activations == backends::Activations::bf16)
          std::ranges::transform(numbers, numbers.begin(), rounded_to_bf16);
      }
    });
    products.layers.push_back(
        backends::exact_product(matrix.view(), tokens, batch, scales.empty() ? nullptr : &scales[layer]));
    if (products.refused.empty() && !products.layers.back().refused.empty())
      products.refused = "Layer " + std::to_string(layer) + ": " + products.layers.back().refused;
  }
  if (all > batch) copy_tokens(products, all, scales_copies);
  return products;
}

}  // namespace

float rounded_to_bf16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u);
}

std::vector<std::vector<float>> ReferenceProducts::first_tokens(int count) const {
  std::vector<std::vector<float>> first;
  for (size_t i = 0; i < tokens.size(); ++i)
    first.emplace_back(tokens[i].begin(), tokens[i].begin() + count * layers[i].shape.cols);
  return first;
}

std::string why_no_float_product(std::span<const datasets::Matrix> matrices) {
  for (const datasets::Matrix& matrix : matrices)
    if (std::string reason = backends::why_no_float_product(matrix.view()); !reason.empty()) return reason;
  return {};
}

ReferenceProducts compute_reference_products(std::span<const datasets::Matrix> matrices, uint64_t seed, int batch,
                                             std::span<const datasets::Scales> scales,
                                             backends::Activations activations) {
  return products_of(matrices, scales, seed, batch, activations, [](int, size_t) { return 1.0f; });
}

ReferenceProducts compute_probes(std::span<const datasets::Matrix> matrices, uint64_t seed,
                                 std::span<const datasets::Scales> scales, backends::Activations activations) {
  int64_t longest = 0;
  for (const datasets::Matrix& matrix : matrices) longest = std::max(longest, matrix.shape.cols);
  const auto strips =
      static_cast<int>(std::min<int64_t>((longest + kProbeTerms - 1) / kProbeTerms, backends::kMaxBatch));
  if (strips <= 1) return {};
  return products_of(matrices, scales, seed, strips, activations, [strips](int token, size_t column) {
    return static_cast<int>(column % static_cast<size_t>(strips)) == token ? 1.0f : 0.0f;
  });
}

SubnormalTokens compute_subnormal_tokens(std::span<const datasets::Matrix> matrices, uint64_t seed, int batch,
                                         std::span<const datasets::Scales> scales, backends::Activations activations) {
  SubnormalTokens of;
  for (size_t i = 1; i < matrices.size(); ++i)
    if (matrices[i].shape.elements() < matrices[of.matrix].shape.elements()) of.matrix = i;
  of.products = products_of(
      matrices.subspan(of.matrix, matrices.empty() ? 0 : 1), scales.empty() ? scales : scales.subspan(of.matrix, 1),
      seed, batch, activations, [](int, size_t) { return 0x1p-128f; }, false);
  return of;
}

}  // namespace ecmv::experiments
