// Products of bytes with up to 16 tokens of bf16 by four lane groups (a warpgroup) together: A [64, 32] of bytes lies
// in their registers, 16 rows each, and B, the tokens' digits, in shared memory; sums are integers. Each token becomes
// integers of 24 bits times a power of two, in three signed digits of a byte. So no instruction turns the elements into
// bf16, and a product of bytes covers twice the columns of a product of bf16. Sums of digits are exact: 32 bits are
// enough for 131071 columns. The bits cut from a token, up to 2^-22 of its largest number, are of the order of what
// sums in float32 lose beside that number.
//
// Digits lie in blocks of 128 columns, [digits, tokens, 128 columns], a byte each: row kDigitTokens d + t has digit d
// of token t, and its parts of 16 bytes change places like those of tokens (warpgroup_units.h).
#pragma once

#include "backends/gpu/bits.h"
#include "backends/gpu/products/row_units.h"
#include "backends/gpu/products/warpgroup_units.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

inline constexpr int kTokenDigits = 3, kDigitTokens = 16, kDigitRows = kTokenDigits * kDigitTokens,
                     kDigitTiles = kDigitRows / 8, kDigitRowBytes = kBlockTokenBytes, kDigitBlockCols = kDigitRowBytes,
                     kDigitBlockBytes = kDigitRows * kDigitRowBytes, kDigitUnitCols = 32,
                     kDigitUnitsOfBlock = kDigitBlockCols / kDigitUnitCols;
inline constexpr int64_t kDigitColBytes = kDigitRows;  // of a column

// A token's number is an integer times 2^token_digits_unit(): exact down to 2^-14 of the token's largest number, and
// nearer than 2^-22 of the largest for all.
ECMV_GPU_DEVICE int token_digits_unit(int largest_exponent) { return largest_exponent - 127 - 7 - 14; }
class TokenDigits {
 public:
  // `largest_exponent` is the exponent of the token's largest number. A float may not hold 2^-unit, so it is two
  // factors.
  explicit ECMV_GPU_DEVICE TokenDigits(int largest_exponent) {
    const int up = -token_digits_unit(largest_exponent);
    first_ = float_of(static_cast<uint32_t>(127 + up / 2) << 23);
    second_ = float_of(static_cast<uint32_t>(127 + up - up / 2) << 23);
  }
  // The digits of four columns, given as two numbers of bf16 a word; words[d] gets digit d of each. A float with a unit
  // of 1 is rounded to an integer, which then lies in its lowest bits.
  ECMV_GPU_DEVICE void words_of(uint2 numbers, uint32_t (&words)[kTokenDigits]) const {
    constexpr float kUnitOfOne = 0x1.8p23f;
    constexpr uint32_t kToDigits = 0x8080u - 0x400000u;
    const auto digits_of = [&](uint32_t bits) {
      return bits_of(float_of(bits) * first_ * second_ + kUnitOfOne) + kToDigits;
    };
    const uint32_t digits[4] = {digits_of(numbers.x << 16), digits_of(numbers.x & 0xFFFF0000u),
                                digits_of(numbers.y << 16), digits_of(numbers.y & 0xFFFF0000u)};
    const uint32_t low[2] = {byte_permute(digits[0], digits[1], 0x5140), byte_permute(digits[2], digits[3], 0x5140)},
                   high[2] = {byte_permute(digits[0], digits[1], 0x4062), byte_permute(digits[2], digits[3], 0x4062)};
    words[0] = byte_permute(low[0], low[1], 0x5410) ^ 0x80808080u;
    words[1] = byte_permute(low[0], low[1], 0x7632) ^ 0x80808080u;
    words[2] = byte_permute(high[0], high[1], 0x5410);
  }

 private:
  float first_, second_;
};

// A row's byte of a column is at digit_byte(col) + digit_row_place(row, digit_part(col)).
ECMV_GPU_DEVICE int digit_byte(int col) { return col / kDigitBlockCols * kDigitBlockBytes + col % 16; }
ECMV_GPU_DEVICE int digit_part(int col) { return col % kDigitBlockCols / 16; }
ECMV_GPU_DEVICE int digit_row_place(int row, int part) { return row * kDigitRowBytes + (part ^ (row & 7)) * 16; }

// c += A B for A [16, 16] and B [16, 8] of signed bytes, four a word, dealt to the lanes 4 g + t of a group of 32:
// `above` holds A[g, 4t..], `below` A[g + 8, 4t..], b B[4t.., g]; sums as of multiply_tokens.
ECMV_GPU_DEVICE void multiply_bytes(uint32_t above, uint32_t below, uint32_t b, int32_t (&c)[4]) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(above), "r"(below), "r"(b));
#else
  using LaneGroup = Lanes<32>;
  const int g = LaneGroup::lane() / 4, t = LaneGroup::lane() % 4;
  for (int part = 0; part < 4; ++part) {
    const auto row = static_cast<int32_t>(LaneGroup::shuffle(above, 4 * g + part)),
               row_below = static_cast<int32_t>(LaneGroup::shuffle(below, 4 * g + part)),
               left = static_cast<int32_t>(LaneGroup::shuffle(b, 8 * t + part)),
               right = static_cast<int32_t>(LaneGroup::shuffle(b, 8 * t + 4 + part));
    c[0] = dot4(row, left, c[0]);
    c[1] = dot4(row, right, c[1]);
    c[2] = dot4(row_below, left, c[2]);
    c[3] = dot4(row_below, right, c[3]);
  }
#endif
}

// C += A B by all four lane groups, for the columns 32 `unit` to 32 `unit` + 31 of the block `bytes` after the first.
// For the first 16 columns a.x and a.y are `above` and `below` of multiply_bytes, for the others a.z and a.w. c[2 d +
// k] has the sums of digit d of tokens 8 k to 8 k + 7.
ECMV_GPU_DEVICE void multiply_digits(uint4 a, const SharedBlocks& blocks, int bytes, int unit,
                                     int32_t (&c)[kDigitTiles][4]) {
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
  const uint64_t b = blocks.descriptor(bytes, unit);
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.eq.u32 p, 1, 1;\n\t"
      "wgmma.mma_async.sync.aligned.m64n48k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23}, "
      "{%24, %25, %26, %27}, %28, p;\n\t}"
      : "+r"(c[0][0]), "+r"(c[0][1]), "+r"(c[0][2]), "+r"(c[0][3]), "+r"(c[1][0]), "+r"(c[1][1]), "+r"(c[1][2]),
        "+r"(c[1][3]), "+r"(c[2][0]), "+r"(c[2][1]), "+r"(c[2][2]), "+r"(c[2][3]), "+r"(c[3][0]), "+r"(c[3][1]),
        "+r"(c[3][2]), "+r"(c[3][3]), "+r"(c[4][0]), "+r"(c[4][1]), "+r"(c[4][2]), "+r"(c[4][3]), "+r"(c[5][0]),
        "+r"(c[5][1]), "+r"(c[5][2]), "+r"(c[5][3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
#else
  const int g = Lanes<32>::lane() / 4, t = Lanes<32>::lane() % 4;
  ECMV_GPU_UNROLL
  for (int k = 0; k < kDigitTiles; ++k) {
    const auto word = [&](int part) {
      return *cast<const uint32_t>(blocks.first() + (bytes + digit_row_place(8 * k + g, part) + 4 * t));
    };
    multiply_bytes(a.x, a.y, word(2 * unit), c[k]);
    multiply_bytes(a.z, a.w, word(2 * unit + 1), c[k]);
  }
#endif
}

// Combines the digits' sums c[..][i] of tokens 8 k to 8 k + 7; five roundings.
ECMV_GPU_DEVICE float number_of_digits(const int32_t (&c)[kDigitTiles][4], int k, int i) {
  float number = 0;
  ECMV_GPU_UNROLL
  for (int d = kTokenDigits - 1; d >= 0; --d) number = number * 256.0f + static_cast<float>(c[2 * d + k][i]);
  return number;
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
