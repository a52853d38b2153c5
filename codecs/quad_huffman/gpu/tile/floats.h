// Products of bf16 and f8 matrices. Exponents come from the tiles' codes as elements of int8 matrices do, sign and
// mantissa from raw bits. Two elements are made at once, as halves of a word: bytes of exponents spread to halves, one
// multiply-add shifts them and adds the lowest, bytes of sign and mantissa are doubled to halves, one selection of bits
// joins them. Operations for four columns beyond the look-ups: 2 for the exponents' lowest bits (K = 4), 8 for the
// halves, 4 to make numbers, 4 multiply-adds, 1 load of x.
//
// f8: the halves of raw words have sign and mantissa in place once they are rotated (format/raw_planes.h), so no bytes
// are doubled. The result has f8's exponent: as a bf16 it is 2^-120 times the number, subnormal ones included. One
// multiplication of each two elements repairs that, or tokens are scaled up in return. Operations: 1.5 rotations, 6 for
// the halves, 2 multiplications. f8's NaN becomes 480.
#pragma once

#include "backends/gpu/products/dense_matmul.h"
#include "backends/gpu/products/token_units.h"
#include "codecs/quad_huffman/gpu/prologue.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Four bf16 elements, two a word.
struct FourFloats {
  uint32_t first, second;
};
// `lowest` in both halves, where exponents are. `unit` is Cells::kExponentUnit, which the compiler must not know.
ECMV_GPU_DEVICE FourFloats join(uint32_t exponents, uint32_t signs, uint32_t lowest, uint32_t unit) {
  constexpr uint32_t kExponent = 0x7F807F80u;
  return {gpu::select_bits(kExponent, gpu::byte_permute(exponents, 0, 0x4140) * unit + lowest,
                           gpu::byte_permute(signs, 0, 0x1100)),
          gpu::select_bits(kExponent, gpu::byte_permute(exponents, 0, 0x4342) * unit + lowest,
                           gpu::byte_permute(signs, 0, 0x3322))};
}
// f8 elements in the same way, smaller by a factor of 2^kF8Shift. `quad` counts in the segment and is a constant once
// the loops around are unrolled; `word` is the raw word of this quad and its neighbour.
inline constexpr int kF8Shift = 120;
ECMV_GPU_DEVICE FourFloats join_f8(int quad, uint32_t exponents, uint32_t word, uint32_t lowest, uint32_t unit) {
  constexpr uint32_t kExponent = ~gpu::kF8Raw;
  const auto rotated = [&](int bits) { return gpu::funnel_shift_right(word, word, static_cast<uint32_t>(bits)); };
  const int bits = quad % 2 * 8;
  return {gpu::select_bits(kExponent, gpu::byte_permute(exponents, 0, 0x4140) * unit + lowest,
                           bits == 0 ? word : rotated(bits)),
          gpu::select_bits(kExponent, gpu::byte_permute(exponents, 0, 0x4342) * unit + lowest, rotated(bits + 4))};
}
// Symbols of eight in the same way, from the exponents less `lowest` and the raw word of this quad (f8: of both quads).
// Bits that belong together lie at the same distance from their places. `base`, in both halves where exponents are,
// takes the place of `lowest` (format/code.h): numbers are never subnormal, so tokens need no factor, and nothing is
// added. Operations for eight columns: 1.5 for the exponents, 8 to take a pair's bits, 3 rotations, one of f8's by the
// multiplier.
static_assert(eights_rotation(0) == 0 && eights_rotation(1) == 8 && eights_rotation(2) == 4 &&
              eights_rotation(3) == -4);
template <bool kF8>
ECMV_GPU_DEVICE FourFloats join_eights(int quad, uint32_t exponents, uint32_t word, uint32_t base) {
  constexpr uint32_t kRaw = kF8 ? gpu::kF8Raw : 0x807F807Fu;
  const auto pair = [&](int number) {
    const int rotation = number == 0 ? 0 : number == 1 ? 8 : number == 2 ? 4 : -4;
    const auto in_place = [&](uint32_t bits) { return bits << (rotation & 31) | bits >> (-rotation & 31); };
    const auto rotated = [](uint32_t bits, int by) {
      return gpu::funnel_shift_right(bits, bits, static_cast<uint32_t>(by & 31));
    };
    // The multiplier shifts to the left and adds as well; no bits of f8 come round.
    if (kF8 && rotation < 0)
      return (((exponents & in_place(0x07800780u)) | (word & in_place(kRaw))) << -rotation) + base;
    const uint32_t both = ((exponents & in_place(0x07800780u)) | (rotation == 0 ? base : rotated(base, -rotation))) |
                          (word & in_place(kRaw));
    return rotation == 0 ? both : rotated(both, rotation);
  };
  const int first = quad % 2 * 2;
  return {pair(first), pair(first + 1)};
}
// Four elements of TileOf's decode() as numbers of bf16, off by 2^power_of_numbers(). `lowest` is lowest_of_halves().
template <typename TileOf>
ECMV_GPU_DEVICE FourFloats unscaled_numbers_of(int quad, uint32_t exponents, uint32_t signs, uint32_t lowest,
                                               uint32_t unit) {
  if constexpr (TileOf::kEights) return join_eights<TileOf::kF8>(quad, exponents, signs, lowest);
  if constexpr (TileOf::kF8) return join_f8(quad, exponents, signs, lowest, unit);
  return join(exponents, signs, lowest, unit);
}
// The same without the power of two of symbols of eight.
template <typename TileOf>
ECMV_GPU_DEVICE FourFloats numbers_of(int quad, uint32_t exponents, uint32_t signs, uint32_t lowest, uint32_t unit) {
  const FourFloats four = unscaled_numbers_of<TileOf>(quad, exponents, signs, lowest, unit);
  if constexpr (TileOf::kF8 && !TileOf::kEights) return {gpu::scaled_f8(four.first), gpu::scaled_f8(four.second)};
  return four;
}
template <typename TileOf>
ECMV_GPU_DEVICE uint32_t exponent_unit(const Hidden& hidden) {
  return hidden.exponent_unit * (TileOf::Bytes::kExponentUnit / Hidden{}.exponent_unit);
}
ECMV_GPU_DEVICE uint32_t in_both_halves(int lowest) {
  return static_cast<uint32_t>(lowest) << 7 | static_cast<uint32_t>(lowest) << 23;
}

// The numbers that a patch gains and loses, as unscaled_numbers_of() makes them: the element's, and the coded one's
// with the sign turned. `sign` comes from for_each_float_patch(), `power` is the matrix's.
struct PatchNumbers {
  uint32_t gains, loses;
  ECMV_GPU_DEVICE uint32_t both() const { return gains | loses << 16; }
};
template <typename TileOf>
ECMV_GPU_DEVICE PatchNumbers patch_numbers(const PatchWord& patch, uint32_t sign, int power) {
  const uint32_t mantissa = TileOf::kF8 ? (sign & 7) << 4 : sign & 0x7F, above = (sign & 0x80) << 8;
  if constexpr (!TileOf::kEights)
    return {above | patch.exponent << 7 | mantissa, (above ^ 0x8000) | patch.substitute << 7 | mantissa};
  constexpr int kToBf16 = TileOf::kF8 ? kF8Shift : 0;
  const float subnormal = gpu::float_of(mantissa << 16) * gpu::float_of((127u + kToBf16) << 23) *
                          gpu::float_of(static_cast<uint32_t>(127 - power) << 23);
  const auto further = static_cast<uint32_t>(kToBf16 - power);
  const uint32_t gains =
      patch.exponent == 0 ? gpu::bits_of(subnormal) >> 16 : (patch.exponent + further) << 7 | mantissa;
  return {above | gains, (above ^ 0x8000) | (patch.substitute + further) << 7 | mantissa};
}
// Products of such numbers are multiplied by this power of two, besides the one that tokens have been scaled up by.
template <typename TileOf>
ECMV_GPU_DEVICE int power_of_numbers(const Matrix& matrix) {
  return TileOf::kEights ? matrix.power : TileOf::kF8 ? kF8Shift : 0;
}
template <typename TileOf>
ECMV_GPU_DEVICE uint32_t lowest_of_halves(const Matrix& matrix) {
  return TileOf::kEights ? matrix.base : in_both_halves(matrix.lowest);
}

// Multiplies by a power of two that one float may not hold.
ECMV_GPU_DEVICE float scaled(float value, int exponent) {
  const int half = exponent / 2;
  return value * gpu::float_of(static_cast<uint32_t>(127 + half) << 23) *
         gpu::float_of(static_cast<uint32_t>(127 + exponent - half) << 23);
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
