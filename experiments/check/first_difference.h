// Where results differ from what they should be, as a sentence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "codecs/codec.h"
#include "datasets/matrix.h"

namespace ecmv::experiments {

template <typename T>
std::string first_difference(std::span<const T> got, std::span<const T> expected, int64_t cols, std::string_view what,
                             size_t layer) {
  if (got.size() != expected.size())
    return fmt::format("layer {}: {} has {} elements instead of {}", layer, what, got.size(), expected.size());
  if (std::equal(got.begin(), got.end(), expected.begin())) return {};  // by words
  const auto [g, e] = std::mismatch(got.begin(), got.end(), expected.begin());
  const int64_t index = g - got.begin();
  const auto differing =
      std::inner_product(got.begin(), got.end(), expected.begin(), int64_t{0}, std::plus<>(), std::not_equal_to<>());
  return fmt::format("layer {}: {} differs at row {}, column {} (got {}, expected {}; {} of {} elements differ)", layer,
                     what, index / cols, index % cols, *g, *e, differing, got.size());
}

// Bytes of one row; elements wider than a byte are compared byte by byte.
inline int64_t row_bytes(const datasets::Matrix& matrix) {
  return std::max<int64_t>(1, codecs::shape_in_bytes(matrix.view()).cols);
}

}  // namespace ecmv::experiments
