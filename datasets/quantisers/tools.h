// Tools that quantisers share: rows of weights in parallel, largest magnitudes, scales as they are stored.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "datasets/chunks.h"
#include "datasets/numbers.h"
#include "datasets/quantisers/quantisers.h"

namespace ecmv::datasets {

// Smaller scales are raised to this one. Weights far below it become zero, and no number that a scale makes leaves
// float32's normal range.
inline constexpr double kSmallestScale = 0x1p-100;
inline constexpr double kGreatestE4m3 = 448;

inline bool is_float(ElementType type) {
  switch (type) {
    case ElementType::bf16:
    case ElementType::f16:
    case ElementType::f32:
    case ElementType::f64:
    case ElementType::f8_e5m2:
    case ElementType::f8_e4m3: return true;
    default: return false;
  }
}

// Calls f(row, weights) for every row, in any order, on all threads. `f` must not throw.
template <typename F>
void for_each_row(const Matrix& matrix, const F& f) {
  constexpr int64_t kRowsOfChunk = 32;
  const auto [rows, cols] = matrix.shape;
  for_each_chunk((rows + kRowsOfChunk - 1) / kRowsOfChunk, 0, [&, rows = rows, cols = cols](int64_t chunk) {
    std::vector<double> weights(static_cast<size_t>(cols));
    for (int64_t row = chunk * kRowsOfChunk; row < std::min(rows, (chunk + 1) * kRowsOfChunk); ++row) {
      read_numbers(matrix.view(), row * cols, weights);
      f(row, std::span<const double>(weights));
    }
  });
}

// [rows, groups] for groups of `group_cols` columns.
std::vector<double> largest_magnitudes(const Matrix& matrix, int64_t group_cols);

// The parameter `group`: tensor, row, or columns.
struct Grouping {
  int64_t rows = 0, groups = 1, group_cols = 0;  // as in Scales
};
Grouping grouping(const Shape& shape, const std::string& group);

// bf16 scales, [rows, groups], for the given values of one step; 1 if all weights of a group are zero. `upward`: no
// scale is below its value; otherwise the nearest.
Scales bf16_scales(const Grouping& grouping, std::span<const double> values, bool upward = false);

// The elements element(weight / its scale), stored as `type`.
template <typename F>
Matrix scaled_elements(const Matrix& matrix, const Scales& scales, ElementType type, const F& element) {
  Matrix result;
  result.name = matrix.name;
  result.shape = matrix.shape;
  result.type = type;
  using Element = decltype(element(0.0));
  result.elements.resize(static_cast<size_t>(matrix.shape.elements()) * sizeof(Element));
  for_each_row(matrix, [&](int64_t row, std::span<const double> weights) {
    std::vector<float> of_groups(static_cast<size_t>(scales.groups));
    scales.of_row(row, of_groups);
    std::byte* const out = result.elements.data() + row * matrix.shape.cols * int64_t{sizeof(Element)};
    for (size_t c = 0; c < weights.size(); ++c) {
      const double scale = of_groups[c / static_cast<size_t>(scales.group_cols)];
      const Element value = scale > 0 ? element(weights[c] / scale) : element(0.0);
      std::memcpy(out + c * sizeof(Element), &value, sizeof(Element));
    }
  });
  result.content_hash = content_hash(result.view());
  return result;
}

}  // namespace ecmv::datasets
