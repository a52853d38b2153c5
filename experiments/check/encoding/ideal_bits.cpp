// See ideal_bits.h.
#include "experiments/check/encoding/ideal_bits.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

namespace ecmv::experiments {
namespace {

// The entropy of blocks of eight elements, in bits of an element. No model of symbols that are up to eight elements, or
// parts of them, takes less: what several symbols have together is at most the sum of what each has.
double entropy_of_blocks(const datasets::MatrixView& matrix) {
  const auto bytes = static_cast<size_t>(8 * datasets::element_bytes(matrix.type));
  const std::string_view all(reinterpret_cast<const char*>(matrix.elements.data()), matrix.elements.size());
  std::unordered_map<std::string_view, int64_t> counts;
  int64_t blocks = 0;
  for (size_t at = 0; at + bytes <= all.size(); at += bytes, ++blocks) ++counts[all.substr(at, bytes)];
  double bits = 0;
  for (const auto& [block, count] : counts)
    bits += static_cast<double>(count) * std::log2(static_cast<double>(blocks) / static_cast<double>(count));
  return blocks == 0 ? 0 : bits / static_cast<double>(8 * blocks);
}

}  // namespace

std::string why_not_ideal(double ideal_bits_per_element, const datasets::MatrixView& decoded, int64_t stored_bytes) {
  constexpr double kFarBelow = 16;  // a prefix code takes a whole bit for what is nearly certain
  const auto elements = static_cast<double>(decoded.shape.elements());
  if (elements == 0) return {};
  const double most = 2 * 8.0 * static_cast<double>(datasets::element_bytes(decoded.type)) + 64 / elements;
  if (!(ideal_bits_per_element >= 0 && ideal_bits_per_element <= most))
    return fmt::format("states {:.4g} ideal bits of an element, which cannot be", ideal_bits_per_element);
  const double stored_bits = 8 * static_cast<double>(stored_bytes) / elements;
  if (ideal_bits_per_element * kFarBelow >= stored_bits) return {};
  const double blocks = entropy_of_blocks(decoded);
  if (ideal_bits_per_element >= blocks * (1 - 1e-6)) return {};
  return fmt::format(
      "states {:.4g} ideal bits of an element, stores {:.4g}, and blocks of eight elements have an "
      "entropy of {:.4g} bits of an element",
      ideal_bits_per_element, stored_bits, blocks);
}

}  // namespace ecmv::experiments
