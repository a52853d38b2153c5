// Products of a token with rows, where each lane owns a row. Matrix units want the columns of a row from four lanes,
// but a lane that decodes a row has them all. So a lane's part of its row becomes its part of operand B unchanged. In B
// the four lanes 4 n + t have one column n and different k; here they are different rows of the matrix. Operand A keeps
// them apart: it has a row for each t and each of the token's four digits, and is zero except where k belongs to t.
// Three of four multiplications are by zero. Matrix units have them to spare. The alternative goes through shared
// memory: a store, a load and a barrier instead of one instruction here.
#pragma once

#include "backends/gpu/products/token_units.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Lane l's sums[i] is the product of number own_sum_number(i) of the four with the row of lane own_sum_row(i).
ECMV_GPU_DEVICE int own_sum_number(int i) { return Lanes<32>::lane() / 16 * 2 + i / 2; }
ECMV_GPU_DEVICE int own_sum_row(int i) {
  const int lane = Lanes<32>::lane();
  return 4 * (lane % 4 * 2 + i % 2) + lane / 4 % 4;
}

// Multiplies two numbers of bf16 by two others; rounds once.
ECMV_GPU_DEVICE uint32_t multiply_pairs(uint32_t a, uint32_t b) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t numbers;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(numbers) : "r"(a), "r"(b), "r"(0x80008000u));
  return numbers;
#else
  const auto product = [](uint32_t one, uint32_t other) {
    const uint32_t bits = bits_of(float_of(one) * float_of(other));
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  };
  return product(a << 16, b << 16) | product(a & 0xFFFF0000u, b & 0xFFFF0000u) << 16;
#endif
}

// A token of bf16 as an integer of 30 bits times a power of two, in four signed digits of a byte: exact for numbers
// down to 2^-22 of the token's largest, and nearer than 2^-29 of the largest for all. Products with integers, and their
// sums, are then exact.
inline constexpr int kDigits = 4;
// The exponent of the token's largest number, signs ignored.
ECMV_GPU_DEVICE int largest_exponent(uint32_t largest) {
  return largest >> 7 == 0 ? 1 : static_cast<int>(largest >> 7);
}
// The exponent of the power of two that multiplies the integers.
ECMV_GPU_DEVICE int digits_unit(int largest_exponent) { return largest_exponent - 127 - 7 - 22; }
// The digits of a number, the lowest in the lowest byte.
ECMV_GPU_DEVICE uint32_t digits_of(uint32_t number, int largest_exponent) {
  const int exponent = static_cast<int>(number >> 7 & 255), below = largest_exponent - (exponent == 0 ? 1 : exponent);
  const uint32_t bits = exponent == 0 ? number & 127 : 128 | (number & 127),
                 magnitude = below < 30 ? bits << 22 >> below : 0,
                 integer = (number >> 15 & 1) != 0 ? 0 - magnitude : magnitude;
  return (integer + 0x00808080u) ^ 0x00808080u;
}

// The first operand of multiply_own_bytes in shared memory: 64 bytes for each 16 columns, first columns 0..3 with
// 8..11, then 4..7 with 12..15. For both come first the two lowest digits (digit 0 and digit 1 of the first four
// columns, then of the others), then the two highest. A lane reads 16 bytes; those below lane 16 read the lowest
// digits. Lanes for which reads_digits() is false have zeros.
inline constexpr int kDigitCols = 16, kDigitBytes = kDigitCols * kDigits;
ECMV_GPU_DEVICE bool reads_digits() {
  const int lane = Lanes<32>::lane();
  return lane / 4 % 4 == lane % 4;
}
ECMV_GPU_DEVICE int digit_place(int digit, int col) {
  return col / 16 * kDigitBytes + col / 4 % 2 * 32 + digit / 2 * 16 + col / 8 % 2 * 8 + digit % 2 * 4 + col % 4;
}

// sums += products of eight columns of four digits with the lanes' rows. `first` holds the bytes of columns 4 k..,
// `second` those 8 further, with signs or without.
template <bool kSigned>
ECMV_GPU_DEVICE void multiply_own_bytes(uint4 digits, uint32_t first, uint32_t second, int32_t (&sums)[4]) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (kSigned)
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(digits.x), "r"(digits.y), "r"(digits.z), "r"(digits.w), "r"(first), "r"(second));
  else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(digits.x), "r"(digits.y), "r"(digits.z), "r"(digits.w), "r"(first), "r"(second));
#else
  using LaneGroup = Lanes<32>;
  const auto dot = [](uint32_t digit, uint32_t bytes, int32_t sum) {
    if constexpr (kSigned) return dot4(static_cast<int32_t>(bytes), static_cast<int32_t>(digit), sum);
    return dot4_unsigned_signed(bytes, static_cast<int32_t>(digit), sum);
  };
  const int g = LaneGroup::lane() / 4, t = LaneGroup::lane() % 4, part = g % 4, from = 4 * g + part;
  const uint32_t a[2][2] = {{LaneGroup::shuffle(digits.x, from), LaneGroup::shuffle(digits.z, from)},
                            {LaneGroup::shuffle(digits.y, from), LaneGroup::shuffle(digits.w, from)}};
  ECMV_GPU_UNROLL
  for (int n = 0; n < 2; ++n) {
    const int row = 4 * (2 * t + n) + part;
    const uint32_t b[2] = {LaneGroup::shuffle(first, row), LaneGroup::shuffle(second, row)};
    ECMV_GPU_UNROLL
    for (int i = 0; i < 2; ++i) sums[2 * i + n] = dot(a[i][1], b[1], dot(a[i][0], b[0], sums[2 * i + n]));
  }
#endif
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
