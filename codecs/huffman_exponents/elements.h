// Takes elements apart into an exponent and a sign with mantissa, and puts them together, one at a time, for encoders
// and reference decoders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/huffman_exponents/format.h"

namespace ecmv::codecs::huffman_exponents {

inline uint32_t load_bf16(std::span<const std::byte> elements, int64_t i) {
  return std::to_integer<uint32_t>(elements[static_cast<size_t>(2 * i)]) |
         std::to_integer<uint32_t>(elements[static_cast<size_t>(2 * i + 1)]) << 8;
}

// The exponent of element i.
inline uint32_t exponent_of(std::span<const std::byte> elements, datasets::ElementType type, int64_t i) {
  if (is_bf16(type)) return load_bf16(elements, i) >> kBf16MantissaBits & 0xff;
  return std::to_integer<uint32_t>(elements[static_cast<size_t>(i)]) >> kF8MantissaBits & 0xf;
}

// Sign above mantissa: 8 bits of a bf16, 4 of an f8.
inline uint32_t raw_of(std::span<const std::byte> elements, datasets::ElementType type, int64_t i) {
  if (is_bf16(type)) return (load_bf16(elements, i) >> 8 & 0x80) | (load_bf16(elements, i) & 0x7f);
  const uint32_t bits = std::to_integer<uint32_t>(elements[static_cast<size_t>(i)]);
  return (bits >> 4 & 8) | (bits & 7);
}

inline void store_element(std::span<std::byte> out, datasets::ElementType type, int64_t i, uint32_t exponent,
                          uint32_t raw) {
  if (is_bf16(type)) {
    const uint32_t bits = (raw & 0x80) << 8 | exponent << kBf16MantissaBits | (raw & 0x7f);
    out[static_cast<size_t>(2 * i)] = static_cast<std::byte>(bits & 0xff);
    out[static_cast<size_t>(2 * i + 1)] = static_cast<std::byte>(bits >> 8);
  } else {
    out[static_cast<size_t>(i)] = static_cast<std::byte>((raw & 8) << 4 | exponent << kF8MantissaBits | (raw & 7));
  }
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace ecmv::codecs::huffman_exponents
