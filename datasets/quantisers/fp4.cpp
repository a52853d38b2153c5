// Quantisers `nvfp4` and `mxfp4`: floats of 4 bits (e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6) in blocks with scales of 8 bits.
// An element is stored as int8 with twice its value: 0, 1, 2, 3, 4, 6, 8, 12, so that codecs of int8 take it.
#include <algorithm>
#include <cmath>

#include "datasets/quantisers/tools.h"

namespace ecmv::datasets {
namespace {

constexpr double kGreatestE2m1 = 6;
constexpr int kGreatestExponent = 2;  // of e2m1
constexpr int kLowestExponent = -100;

// Twice the nearest e2m1, of two equally near ones the one with the even last bit; 6 for values beyond 6.
int8_t doubled_e2m1(double value) {
  const double doubled = 2 * std::fabs(value);
  const double unit = doubled <= 4 ? 1 : doubled <= 8 ? 2 : 4;
  const double nearest = std::min(unit * std::nearbyint(doubled / unit), 2 * kGreatestE2m1);
  return int8_t(std::signbit(value) ? -nearest : nearest);
}

Quantised blocks(const Matrix& matrix, Scales scales) {
  Quantised result;
  // The factor below is half of the scale of the elements' values.
  result.matrix =
      scaled_elements(matrix, scales, ElementType::i8, [](double doubled) { return doubled_e2m1(doubled / 2); });
  result.scales = std::move(scales);
  return result;
}

Scales scales_of_blocks(const Matrix& matrix, int64_t cols, ScaleType type) {
  Scales scales;
  scales.type = type;
  scales.rows = matrix.shape.rows;
  scales.group_cols = cols;
  scales.groups = (matrix.shape.cols + cols - 1) / cols;
  return scales;
}

// Blocks of 16 with e4m3 scales, and above them a float32 for the tensor. That has no more bits than a bf16, so
// products of all three are float32 numbers.
Quantised nvfp4(const Matrix& matrix, const Parameters&) {
  Scales scales = scales_of_blocks(matrix, 16, ScaleType::e4m3);
  const std::vector<double> largest = largest_magnitudes(matrix, scales.group_cols);
  const double greatest = *std::ranges::max_element(largest);
  const float tensor = float(bf16_value(
      nearest_bf16(greatest == 0 ? 1 : std::max(greatest / (kGreatestE2m1 * kGreatestE4m3), kSmallestScale))));
  for (const double of_block : largest)
    scales.stored.push_back(std::byte(nearest_f8_e4m3(of_block / kGreatestE2m1 / double(tensor))));
  const auto* bytes = reinterpret_cast<const std::byte*>(&tensor);
  scales.stored.insert(scales.stored.end(), bytes, bytes + sizeof(tensor));
  scales.factor = tensor / 2;
  return blocks(matrix, std::move(scales));
}

// Blocks of 32 with powers of two, as in the OCP format: the scale gives the largest magnitude the exponent of 4.
Quantised mxfp4(const Matrix& matrix, const Parameters&) {
  Scales scales = scales_of_blocks(matrix, 32, ScaleType::e8m0);
  for (const double of_block : largest_magnitudes(matrix, scales.group_cols)) {
    const int exponent = of_block == 0 ? 0 : std::max(std::ilogb(of_block) - kGreatestExponent, kLowestExponent);
    scales.stored.push_back(std::byte(exponent + 127));
  }
  scales.factor = 0.5f;
  return blocks(matrix, std::move(scales));
}

template <int64_t kCols>
int64_t always(const Parameters&) {
  return kCols;
}

}  // namespace

extern const Quantiser kNvfp4Quantiser{
    "nvfp4", "e2m1 floats in blocks of 16 with e4m3 scales and one of the tensor; elements are twice the value",
    {},      nvfp4,
    nullptr, always<16>};
extern const Quantiser kMxfp4Quantiser{
    "mxfp4", "e2m1 floats in blocks of 32 with powers of two as scales; elements are twice the value",
    {},      mxfp4,
    nullptr, always<32>};

}  // namespace ecmv::datasets
