// See products.h.
#include "experiments/check/products.h"

#include <algorithm>
#include <bit>

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

// factor(token, column): what that number is multiplied with, a power of two or zero.
template <typename Factor>
ReferenceProducts products_of(std::span<const datasets::Matrix> matrices, std::span<const datasets::Scales> scales,
                              uint64_t seed, int batch, backends::Activations activations, Factor factor) {
  ReferenceProducts products;
  products.batch = batch;
  products.refused = why_no_float_product(matrices);
  if (!products.refused.empty()) return products;
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
  of.products = products_of(matrices.subspan(of.matrix, matrices.empty() ? 0 : 1),
                            scales.empty() ? scales : scales.subspan(of.matrix, 1), seed, batch, activations,
                            [](int, size_t) { return 0x1p-128f; });
  return of;
}

}  // namespace ecmv::experiments
