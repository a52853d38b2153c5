// See levels.h. The grid is found by trying scales in ascending order, from a fifteenth of the range on, with few
// significant bits: 5 for bf16, so that levels -8..7 take 8. On average that makes a step 3 % wider than it could be.
#include "codecs/tile_rans/levels.h"

#include <cmath>
#include <cstring>

#include "codecs/codec.h"
#include "datasets/numbers.h"

namespace ecmv::codecs::tile_rans {
namespace {

using datasets::ElementType;

struct FloatType {
  int significant_bits;  // of its numbers
  int lowest_exponent;   // all are multiples of 2^lowest_exponent
  double greatest;
  int scale_bits;  // of a scale
};

FloatType float_type(ElementType type) {
  if (type == ElementType::bf16) return {8, -133, datasets::bf16_value(0x7F7F), 5};
  if (type == ElementType::f16) return {11, -24, 65504, 7};
  return {24, -149, 0x1.fffffep127, 8};
}

bool is_float(ElementType type) {
  return type == ElementType::bf16 || type == ElementType::f16 || type == ElementType::f32;
}

bool is_number_of(double value, const FloatType& type) {
  if (value == 0) return true;
  if (!(std::fabs(value) <= type.greatest)) return false;
  const int lowest = std::max(std::ilogb(value) - type.significant_bits + 1, type.lowest_exponent);
  const double steps = std::ldexp(value, -lowest);
  return steps == std::floor(steps);
}

struct Range {
  double least = 0, greatest = 0;
  bool finite = true;
};

Range range_of(const datasets::MatrixView& matrix) {
  Range range;
  constexpr int64_t kPiece = 4096;
  double numbers[kPiece];
  for (int64_t first = 0; first < matrix.shape.elements(); first += kPiece) {
    const auto count = static_cast<size_t>(std::min(kPiece, matrix.shape.elements() - first));
    datasets::read_numbers(matrix, first, {numbers, count});
    if (first == 0) range.least = range.greatest = numbers[0];
    for (size_t i = 0; i < count; ++i) {
      range.finite = range.finite && std::isfinite(numbers[i]);
      range.least = std::min(range.least, numbers[i]);
      range.greatest = std::max(range.greatest, numbers[i]);
    }
  }
  return range;
}

bool fits(double scale, const Range& range, const FloatType& type) {
  const double first = std::rint(range.least / scale), last = std::rint(range.greatest / scale);
  if (last - first >= kLevels || std::fabs(first) > static_cast<double>(kFurthestZero) ||
      static_cast<double>(static_cast<float>(scale)) != scale)
    return false;
  for (double level = first; level <= last; ++level)
    if (!is_number_of(level * scale, type)) return false;
  return true;
}

}  // namespace

std::string refuses_levels(const datasets::MatrixView& matrix) {
  if (matrix.type != ElementType::i8 && !is_float(matrix.type))
    return "tile_rans takes int8 elements without loss and rounds bf16, f16 and f32; elements of type " +
           std::string(datasets::element_type_name(matrix.type)) + " it does not store.";
  const Range range = range_of(matrix);
  if (!range.finite) return "The matrix holds NaN or infinities, which are no levels.";
  if (matrix.type == ElementType::i8 && range.greatest - range.least >= kLevels)
    return "The elements reach from " + std::to_string(static_cast<int>(range.least)) + " to " +
           std::to_string(static_cast<int>(range.greatest)) + ", more than 16 consecutive values.";
  return "";
}

Levels fit_levels(const datasets::MatrixView& matrix) {
  const Range range = range_of(matrix);
  Levels levels;
  if (matrix.type == ElementType::i8) {
    levels.first = static_cast<int64_t>(range.least);
  } else if (range.least == range.greatest) {
    levels.scale = range.least == 0 ? 1.0f : static_cast<float>(std::fabs(range.least));
    levels.first = range.least == 0 ? 0 : range.least < 0 ? -1 : 1;
  } else {
    const FloatType type = float_type(matrix.type);
    int exponent = 0;
    const double least_scale = (range.greatest - range.least) / (kLevels - 1);
    const double mantissa = std::frexp(least_scale, &exponent);
    int64_t steps = static_cast<int64_t>(std::ceil(std::ldexp(mantissa, type.scale_bits)));
    exponent -= type.scale_bits;
    const int64_t most = int64_t{1} << type.scale_bits;
    // A scale beyond twice the greatest magnitude always fits: everything becomes 0.
    while (!fits(std::ldexp(static_cast<double>(steps), exponent), range, type)) {
      if (++steps < most) continue;
      steps = most / 2;
      ++exponent;
    }
    levels.scale = static_cast<float>(std::ldexp(static_cast<double>(steps), exponent));
    levels.first = static_cast<int64_t>(std::rint(range.least / levels.scale));
  }
  levels.zero_point = static_cast<float>(static_cast<double>(levels.first) * levels.scale);
  return levels;
}

std::vector<uint8_t> symbols_of(const datasets::MatrixView& matrix, const Levels& levels) {
  std::vector<uint8_t> symbols(static_cast<size_t>(matrix.shape.elements()));
  if (matrix.type == ElementType::i8) {
    for (size_t i = 0; i < symbols.size(); ++i) symbols[i] = static_cast<uint8_t>(matrix.i8()[i] - levels.first);
    return symbols;
  }
  constexpr size_t kPiece = 4096;
  double numbers[kPiece];
  for (size_t first = 0; first < symbols.size(); first += kPiece) {
    const size_t count = std::min(kPiece, symbols.size() - first);
    datasets::read_numbers(matrix, static_cast<int64_t>(first), {numbers, count});
    // A quotient that is no tie lies much farther from a tie than its rounding error, because both numbers have few
    // bits.
    for (size_t i = 0; i < count; ++i)
      symbols[first + i] =
          static_cast<uint8_t>(static_cast<int64_t>(std::rint(numbers[i] / levels.scale)) - levels.first);
  }
  return symbols;
}

Levels read_levels(std::span<const std::byte> layer) {
  if (layer.size() < static_cast<size_t>(kLayerBytes))
    throw MalformedStream("The layer section of a tile_rans stream has " + std::to_string(layer.size()) +
                          " bytes, fewer than 16.");
  float scale = 0, zero_point = 0;
  std::memcpy(&scale, layer.data(), 4);
  std::memcpy(&zero_point, layer.data() + 4, 4);
  if (!(scale > 0) || !std::isfinite(scale) || !std::isfinite(zero_point))
    throw MalformedStream("The scale of a tile_rans stream is no positive number, or its zero point none at all.");
  const double first = static_cast<double>(zero_point) / scale;
  if (!(std::fabs(first) <= static_cast<double>(kFurthestZero)) || first != std::rint(first))
    throw MalformedStream("The zero point of a tile_rans stream is no multiple of its scale, or one too far away.");
  return trusted_levels(layer);
}

std::array<std::optional<uint32_t>, kLevels> level_bits(const Levels& levels, ElementType type) {
  std::array<std::optional<uint32_t>, kLevels> bits;
  for (int symbol = 0; symbol < kLevels; ++symbol) {
    const double value = levels.value(symbol);
    const bool is_number = type == ElementType::i8 ? value == std::rint(value) && value >= -128 && value <= 127
                                                   : is_number_of(value, float_type(type));
    if (is_number) bits[symbol] = exact_bits(value, type);
  }
  return bits;
}

}  // namespace ecmv::codecs::tile_rans
