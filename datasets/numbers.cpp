// Bit patterns to doubles. All conversions are exact, except for large 64-bit integers.
#include "datasets/numbers.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

// Sign, exponent and fraction of a small IEEE-like format; `bias` belongs to the exponent.
double small_float(uint32_t bits, int exponent_bits, int fraction_bits, int bias) {
  const int exponent = int(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = int(bits) & ((1 << fraction_bits) - 1);
  const double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

// Exponent and fraction of the nearest number to a finite one, halves to even. Counts steps of the power of two below;
// subnormal numbers count those of the smallest normal one. Twice as many are the next power.
uint32_t nearest_magnitude(double magnitude, int fraction_bits, int bias) {
  if (magnitude == 0) return 0;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const double scaled = std::ldexp(magnitude, fraction_bits - exponent), below = std::floor(scaled),
               rest = scaled - below;
  const auto whole = static_cast<uint32_t>(below), steps = whole + (rest > 0.5 || (rest == 0.5 && whole % 2 == 1));
  return (static_cast<uint32_t>(exponent + bias - 1) << fraction_bits) + steps;
}

// The nearest number of an IEEE-like format; values beyond the greatest become infinite.
uint16_t nearest_small_float(double value, int exponent_bits, int fraction_bits) {
  const uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + fraction_bits) : 0;
  const uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double magnitude = std::fabs(value);
  if (std::isnan(magnitude)) return static_cast<uint16_t>(sign | infinity | 1u << (fraction_bits - 1));
  if (magnitude >= std::ldexp(1.0, bias + 1)) return static_cast<uint16_t>(sign | infinity);
  return static_cast<uint16_t>(sign | nearest_magnitude(magnitude, fraction_bits, bias));
}

template <typename T, typename ToDouble>
void convert(const std::byte* elements, std::span<double> out, ToDouble to_double) {
  static_assert(std::endian::native == std::endian::little, "elements are read as the machine stores them");
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, elements + i * sizeof(T), sizeof(T));
    out[i] = to_double(value);
  }
}

template <typename T>
void convert(const std::byte* elements, std::span<double> out) {
  convert<T>(elements, out, [](T value) { return double(value); });
}

}  // namespace

double bf16_value(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

double f16_value(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  if ((bits & 0x7C00) != 0x7C00) return small_float(bits, 5, 10, 15);
  return bits & 0x3FF ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
}

double f8_e5m2_value(uint8_t bits) { return f16_value(uint16_t(bits << 8)); }

double f8_e4m3_value(uint8_t bits) {
  return (bits & 0x7F) == 0x7F ? std::numeric_limits<double>::quiet_NaN() : small_float(bits, 4, 3, 7);
}

double f8_e4m3fnuz_value(uint8_t bits) {
  return bits == 0x80 ? std::numeric_limits<double>::quiet_NaN() : small_float(bits, 4, 3, 8);
}
double f8_e5m2fnuz_value(uint8_t bits) {
  return bits == 0x80 ? std::numeric_limits<double>::quiet_NaN() : small_float(bits, 5, 2, 16);
}
double f8_e8m0_value(uint8_t bits) {
  return bits == 0xFF ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, int(bits) - 127);
}

uint16_t nearest_bf16(double value) {
  // Rounding to float first would round twice. So if the double is not exactly the float, the bits below the bf16 are
  // made odd.
  float near = float(value);
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if (std::isnan(near)) return uint16_t(bits >> 16 | 0x40);
  if (std::isfinite(near) && double(near) != value) {
    if (std::fabs(double(near)) > std::fabs(value)) --bits;  // towards zero
    bits |= 1;
  }
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

uint16_t nearest_f16(double value) { return nearest_small_float(value, 5, 10); }

uint8_t nearest_f8_e5m2(double value) { return static_cast<uint8_t>(nearest_small_float(value, 5, 2)); }

uint8_t nearest_f8_e4m3(double value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(magnitude)) return sign | 0x7F;
  if (magnitude >= 448) return sign | 0x7E;
  return static_cast<uint8_t>(sign | nearest_magnitude(magnitude, 3, 7));
}

void read_numbers(const MatrixView& matrix, int64_t first, std::span<double> out) {
  const std::byte* elements = matrix.elements.data() + first * element_bytes(matrix.type);
  switch (matrix.type) {
    case ElementType::i8: return convert<int8_t>(elements, out);
    case ElementType::u8: return convert<uint8_t>(elements, out);
    case ElementType::bf16: return convert<uint16_t>(elements, out, bf16_value);
    case ElementType::f16: return convert<uint16_t>(elements, out, f16_value);
    case ElementType::f32: return convert<float>(elements, out);
    case ElementType::f64: return convert<double>(elements, out);
    case ElementType::i16: return convert<int16_t>(elements, out);
    case ElementType::u16: return convert<uint16_t>(elements, out);
    case ElementType::i32: return convert<int32_t>(elements, out);
    case ElementType::u32: return convert<uint32_t>(elements, out);
    case ElementType::i64: return convert<int64_t>(elements, out);
    case ElementType::u64: return convert<uint64_t>(elements, out);
    case ElementType::f8_e5m2: return convert<uint8_t>(elements, out, f8_e5m2_value);
    case ElementType::f8_e4m3: return convert<uint8_t>(elements, out, f8_e4m3_value);
  }
  throw DatasetError("The element type " + std::to_string(int(matrix.type)) + " does not exist.");
}

}  // namespace ecmv::datasets
