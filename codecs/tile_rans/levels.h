// The 16 levels of a layer: value = fmaf(symbol, scale, zero_point). int8 keeps its values (scale 1). Floats are
// rounded to the nearest level of a grid of multiples of `scale`. The scale has so few bits that the source's own type
// holds every level in use: then the reference's elements, fmaf in float32 and symbol * scale + zero_point without
// rounding are the same numbers.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "codecs/tile_rans/format.h"

namespace ecmv::codecs::tile_rans {

// Zero points may be this many multiples of scale: sums of products stay below 2^63 up to 2^19 columns.
inline constexpr int64_t kFurthestZero = int64_t{1} << 20;

struct Levels {
  float scale = 1, zero_point = 0;
  int64_t first = 0;  // zero_point = first * scale
  double value(int symbol) const { return static_cast<double>(first + symbol) * scale; }
  double largest() const {
    return std::max(value(0) < 0 ? -value(0) : value(0),
                    value(kLevels - 1) < 0 ? -value(kLevels - 1) : value(kLevels - 1));
  }
};

// "" if there are levels for this matrix, otherwise the reason as a sentence.
std::string refuses_levels(const datasets::MatrixView& matrix);
// The levels of a matrix that has elements and that refuses_levels() takes.
Levels fit_levels(const datasets::MatrixView& matrix);
// Every element's symbol.
std::vector<uint8_t> symbols_of(const datasets::MatrixView& matrix, const Levels& levels);

// The levels stored in `layer`. Throws MalformedStream for invalid ones.
Levels read_levels(std::span<const std::byte> layer);
// The same without checks.
inline Levels trusted_levels(std::span<const std::byte> layer) {
  Levels levels;
  std::memcpy(&levels.scale, layer.data(), 4);
  std::memcpy(&levels.zero_point, layer.data() + 4, 4);
  levels.first = static_cast<int64_t>(std::rint(static_cast<double>(levels.zero_point) / levels.scale));
  return levels;
}

// The bit pattern of a value that the type holds.
inline uint32_t exact_bits(double value, datasets::ElementType type) {
  if (type == datasets::ElementType::i8) return static_cast<uint8_t>(static_cast<int64_t>(value));
  if (type == datasets::ElementType::f32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (type == datasets::ElementType::bf16) return std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
  const double magnitude = std::fabs(value);
  const int exponent = magnitude < 0x1p-14 ? 0 : std::ilogb(magnitude) + 15;  // as stored
  const auto fraction =
      static_cast<uint32_t>(std::ldexp(magnitude, exponent == 0 ? 24 : 25 - exponent));  // with the leading bit
  return (value < 0 ? 0x8000u : 0u) |
         (exponent == 0 ? fraction : (static_cast<uint32_t>(exponent) << 10) + fraction - 0x400u);
}

// Bit patterns of the levels as elements of a type (in the low bytes); nothing if the type does not hold a level.
std::array<std::optional<uint32_t>, kLevels> level_bits(const Levels& levels, datasets::ElementType type);

}  // namespace ecmv::codecs::tile_rans
