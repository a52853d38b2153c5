// Elements as float32, for the types that float32 holds exactly: all of one and two bytes, and f32. The code has no
// branches, so loops over it become vectors, and is inlined into callers of any instruction set. NaN and infinities
// stay NaN and infinities.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/always_inline.h"
#include "datasets/matrix.h"

namespace ecmv::backends::cpu {

ECMV_INLINE float bf16_number(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// A narrow exponent and fraction, shifted to float32's places, give the number divided by the power of two between the
// two biases. Subnormal numbers become subnormal float32 and come out right as well.
ECMV_INLINE float f16_number(uint16_t bits) {
  const uint32_t moved = (bits & 0x7FFFu) << 13;
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(moved) * 0x1p112f);
  const uint32_t magnitude = moved >= 0x0F800000u ? moved | 0x7F800000u : finite;
  return std::bit_cast<float>(magnitude | (bits & 0x8000u) << 16);
}
ECMV_INLINE float f8_e5m2_number(uint8_t bits) { return f16_number(static_cast<uint16_t>(bits << 8)); }
ECMV_INLINE float f8_e4m3_number(uint8_t bits) {
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>((bits & 0x7Fu) << 20) * 0x1p120f);
  const uint32_t magnitude = (bits & 0x7F) == 0x7F ? 0x7FC00000u : finite;
  return std::bit_cast<float>(magnitude | (bits & 0x80u) << 24);
}

template <typename Bits, typename ToFloat>
ECMV_INLINE void convert_elements(const std::byte* elements, int64_t count, float* out, ToFloat to_float) {
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, elements + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
    out[i] = to_float(bits);
  }
}

// Writes `count` elements of `type` at `elements` as float32; writes nothing for types other than those above.
ECMV_INLINE void elements_to_floats(datasets::ElementType type, const std::byte* elements, int64_t count, float* out) {
  using enum datasets::ElementType;
  switch (type) {
    case i8: return convert_elements<int8_t>(elements, count, out, [](int8_t v) { return static_cast<float>(v); });
    case u8: return convert_elements<uint8_t>(elements, count, out, [](uint8_t v) { return static_cast<float>(v); });
    case i16: return convert_elements<int16_t>(elements, count, out, [](int16_t v) { return static_cast<float>(v); });
    case u16: return convert_elements<uint16_t>(elements, count, out, [](uint16_t v) { return static_cast<float>(v); });
    case bf16: return convert_elements<uint16_t>(elements, count, out, [](uint16_t v) { return bf16_number(v); });
    case f16: return convert_elements<uint16_t>(elements, count, out, [](uint16_t v) { return f16_number(v); });
    case f8_e5m2: return convert_elements<uint8_t>(elements, count, out, [](uint8_t v) { return f8_e5m2_number(v); });
    case f8_e4m3: return convert_elements<uint8_t>(elements, count, out, [](uint8_t v) { return f8_e4m3_number(v); });
    case f32: return convert_elements<float>(elements, count, out, [](float v) { return v; });
    case f64:
    case i32:
    case u32:
    case i64:
    case u64: return;
  }
}

#undef ECMV_INLINE

}  // namespace ecmv::backends::cpu
