// Raw bits of 32 columns of a row, 8 quads, as planes of words (FORMAT.md). A quad is a word whose byte k is for column
// k, so one shift of the word moves every field.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>

#include "codecs/quad_huffman/format/code.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr uint32_t low_bits_of_bytes(int bits) { return 0x01010101u * ((1u << bits) - 1); }

// Calls f(quad, shift in it, bits, word, shift in that) for all fields of the raw bits of 8 quads.
template <class F>
void for_each_raw_field(Planes planes, bool nibbles, F f) {
  for (int q = 0; q < 8; ++q) {
    if (nibbles) {
      const int bits = q / 2 * planes.first;
      f(q, 0, planes.first, bits / 4, bits % 4 + q % 2 * 4);
      continue;
    }
    int first = 0;
    for (const int width : {planes.first, planes.second}) {
      if (width == 3 && q >= 6)
        for (int bit = 0; bit < 3; ++bit) f(q, first + bit, 1, first + (3 * q + bit) % 18 / 2, 6 + (3 * q + bit) % 2);
      else if (width == 3)
        f(q, first, 3, first + q / 2, 3 * (q % 2));
      else
        f(q, first, width, first + q * width / 8, q * width % 8);
      first += width;
    }
  }
}
// Packs quads[8], whose bytes are below 2^(first + second), into words[first + second], and finds them again.
inline void pack_raw(Planes planes, bool nibbles, const uint32_t* quads, uint32_t* words) {
  for (int j = 0; j < planes.first + planes.second; ++j) words[j] = 0;
  for_each_raw_field(planes, nibbles, [&](int q, int from, int bits, int word, int to) {
    if (bits > 0) words[word] |= (quads[q] >> from & low_bits_of_bytes(bits)) << to;
  });
}
inline void unpack_raw(Planes planes, bool nibbles, const uint32_t* words, uint32_t* quads) {
  for (int q = 0; q < 8; ++q) quads[q] = 0;
  for_each_raw_field(planes, nibbles, [&](int q, int to, int bits, int word, int from) {
    if (bits > 0) quads[q] |= (words[word] >> from & low_bits_of_bytes(bits)) << to;
  });
}

// Signs and mantissas of f8, s0000mmm each, of a group's 32 columns, in words[4] (FORMAT.md): which nibbles in the word
// of eight columns have column `col`'s mantissa and sign.
inline constexpr int f8_mantissa_nibble(int col) { return (1 + col / 2 + col % 2 * 4) % 8; }
inline constexpr int f8_sign_nibble(int col) { return (f8_mantissa_nibble(col) + 2) % 8; }
inline void pack_f8(const uint8_t* signs, uint32_t* words) {
  for (int j = 0; j < 4; ++j) words[j] = 0;
  for (int col = 0; col < 32; ++col)
    words[col / 8] |= static_cast<uint32_t>(signs[col] & 7) << (4 * f8_mantissa_nibble(col % 8)) |
                      static_cast<uint32_t>(signs[col] >> 7) << (4 * f8_sign_nibble(col % 8) + 3);
}
inline uint8_t f8_sign(const uint32_t* words, int col) {
  const uint32_t word = words[col / 8];
  return static_cast<uint8_t>((word >> (4 * f8_mantissa_nibble(col % 8)) & 7) |
                              (word >> (4 * f8_sign_nibble(col % 8)) & 8) << 4);
}

// Symbols of eight: signs and mantissas lie where a bf16 has them, rotated as exponents are.
inline constexpr int eights_sign_word(bool f8, int col) { return col / (f8 ? 8 : 4); }
inline constexpr int eights_sign_shift(int col) { return (16 * (col % 2) + eights_rotation(col % 8 / 2)) & 31; }
inline void pack_eights_signs(bool f8, const uint8_t* signs, uint32_t* words) {
  for (int j = 0; j < (f8 ? 4 : 8); ++j) words[j] = 0;
  const auto put = [&](int col, uint32_t mantissa) __attribute__((always_inline)) {
    const uint32_t sign = (signs[col] & 0x80u) << 8;
    words[eights_sign_word(f8, col)] |= std::rotl(sign | mantissa, eights_sign_shift(col));
  };
  // Unrolled, all shifts are constants.
  if (f8)
#pragma GCC unroll 32
    for (int col = 0; col < 32; ++col) put(col, (signs[col] & 7u) << 4);
  else
#pragma GCC unroll 32
    for (int col = 0; col < 32; ++col) put(col, signs[col] & 0x7fu);
}
inline uint8_t eights_sign(bool f8, const uint32_t* words, int col) {
  const uint32_t bits = std::rotr(words[eights_sign_word(f8, col)], eights_sign_shift(col));
  return static_cast<uint8_t>((bits >> 8 & 0x80) | (f8 ? bits >> 4 & 7 : bits & 0x7f));
}

// The two raw bits of the exponents of 32 columns in symbols of eight. words[0] has columns 0 to 15, the second eight
// two bits further.
inline constexpr int eights_raw_shift(int col) { return (eights_exponent_shift(col % 8) + 2 * (col / 8 % 2)) & 31; }
inline void pack_eights(const uint8_t* lows, uint32_t* words) {
  words[0] = words[1] = 0;
#pragma GCC unroll 32
  for (int col = 0; col < 32; ++col) words[col / 16] |= std::rotl(uint32_t{lows[col]}, eights_raw_shift(col));
}
inline void unpack_eights(const uint32_t* words, uint32_t* quads) {
  for (int q = 0; q < 8; ++q) quads[q] = 0;
#pragma GCC unroll 32
  for (int col = 0; col < 32; ++col)
    quads[col / 4] |= (std::rotr(words[col / 16], eights_raw_shift(col)) & 3) << (8 * (col % 4));
}

}  // namespace ecmv::codecs::quad_huffman
