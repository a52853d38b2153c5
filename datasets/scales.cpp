// See scales.h.
#include "datasets/scales.h"

#include <cmath>
#include <cstring>

#include "datasets/numbers.h"

namespace ecmv::datasets {
namespace {

uint16_t word_at(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}

double scale_value(ScaleType type, const std::byte* at) {
  switch (type) {
    case ScaleType::bf16: return bf16_value(word_at(at));
    case ScaleType::e4m3: return f8_e4m3_value(uint8_t(*at));
    case ScaleType::e8m0: return std::ldexp(1.0, int(*at) - 127);
    case ScaleType::f16: return f16_value(word_at(at));
  }
  return 0;
}

}  // namespace

void Scales::of_row(int64_t row, std::span<float> out) const {
  const int64_t width = type == ScaleType::bf16 || type == ScaleType::f16 ? 2 : 1, first = rows == 1 ? 0 : row * groups;
  for (int64_t g = 0; g < groups; ++g)
    out[size_t(g)] = float(scale_value(type, stored.data() + (first + g) * width) * double(factor));
}

void Scales::minimums_of_row(int64_t row, std::span<float> out) const {
  const int64_t first = rows * groups + (rows == 1 ? 0 : row * groups);
  for (int64_t g = 0; g < groups; ++g) out[size_t(g)] = float(f16_value(word_at(stored.data() + (first + g) * 2)));
}

void read_row(const MatrixView& matrix, const Scales& scales, int64_t row, std::span<double> out) {
  read_numbers(matrix, row * matrix.shape.cols, out);
  if (scales.empty()) return;
  std::vector<float> of_groups(size_t(scales.groups));
  scales.of_row(row, of_groups);
  for (size_t c = 0; c < out.size(); ++c) out[c] *= double(of_groups[c / size_t(scales.group_cols)]);
  if (!scales.has_minimums) return;
  scales.minimums_of_row(row, of_groups);
  // The sum of doubles is exact: both are multiples of 2^-24 below 2^23.
  for (size_t c = 0; c < out.size(); ++c) out[c] = float(out[c] + double(of_groups[c / size_t(scales.group_cols)]));
}

}  // namespace ecmv::datasets
