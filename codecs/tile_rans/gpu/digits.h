// Tokens as fixed point for matrix units of bytes, and how exact sums become floats. A token's elements are multiples
// of a power of two so small that the largest needs 23 bits and a sign: |x - X unit| <= unit / 2 <= 2^-22.98 max |x|. X
// is written as three digits of base 256, -128 to 127. A digit of a token is a column of the product, 3 t + digit, so
// sums over symbols * digits are exact integers. A row's result
//
// y = unit * scale * (sum of symbols X + zero_point / scale * sum of X)
//
// has no errors but the rounding of X and one rounding to float32.
#pragma once

#include <cmath>

#include "backends/gpu/lanes.h"
#include "backends/gpu/products/dense_matmul.h"
#include "codecs/tile_rans/format.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

using LaneGroup = gpu::Lanes<kLanes>;

inline constexpr int kDigits = 3, kUnitColumns = 8;         // columns of one operand of a matrix unit
inline constexpr int kLargestDigits = 127 * 65793;          // three digits of 127
inline constexpr int kDigitThreads = 512, kDigitParts = 8;  // thread blocks that share a token

// The places in the launch's scratch: operands, [steps of 32 columns][operands][lanes] of two words, and each token's
// unit and sums of X, [token][part].
struct Digits {
  gpu::Pointer<gpu::uint2> operands;
  gpu::Pointer<double> units;
  gpu::Pointer<int64_t> sums;
};

inline int operands_of(int batch) { return (batch * kDigits + kUnitColumns - 1) / kUnitColumns; }
inline int64_t operand_bytes(int64_t cols, int operands) {
  return (cols + kPanelCols - 1) / kPanelCols * operands * kLanes * 8;
}

// 2^exponent as a float, for exponents of normal numbers.
ECMV_GPU_DEVICE float power_of_two(int exponent) { return gpu::float_of(static_cast<uint32_t>(exponent + 127) << 23); }

// X = x 2^shift, rounded; in two steps, because 2^shift need not be a float.
ECMV_GPU_DEVICE int32_t fixed_point(float x, int shift) {
  const int half = shift / 2;
  return static_cast<int32_t>(rintf(x * power_of_two(half) * power_of_two(shift - half)));
}

// The largest shift for which the largest magnitude, given as its bits, fits the digits.
ECMV_GPU_DEVICE int shift_of(uint32_t magnitude) {
  if (magnitude == 0) return 0;
  const int leading = gpu::leading_zeros(magnitude);
  const int exponent = magnitude >= 1u << 23
                           ? static_cast<int>(magnitude >> 23) - 127
                           : -118 - leading;  // of the highest bit: floats below 2^-126 count from 2^-149
  const int shift = 22 - exponent;
  const int32_t fixed = fixed_point(gpu::float_of(magnitude), shift);
  return fixed > kLargestDigits ? shift - 1 : shift;
}

// All threads of the block find a token's largest |x| as bits; NaN and infinities are above all numbers. `found` is a
// word of shared memory for each 32 threads.
ECMV_GPU_DEVICE uint32_t largest_magnitude(gpu::Pointer<const float> x, int64_t cols, gpu::Pointer<uint32_t> found) {
  uint32_t most = 0;
  const auto take = [&](uint32_t bits) { most = (bits & 0x7FFFFFFFu) > most ? bits & 0x7FFFFFFFu : most; };
  const gpu::Pointer<const gpu::uint4> fours = gpu::cast<const gpu::uint4>(x);
  for (int64_t i = gpu::thread_index(); i < (cols + 3) / 4; i += gpu::block_size()) {  // zeros past the last column
    const gpu::uint4 four = fours[i];
    take(four.x);
    take(four.y);
    take(four.z);
    take(four.w);
  }
  ECMV_GPU_UNROLL
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    const uint32_t other = LaneGroup::shuffle_xor(most, distance);
    most = other > most ? other : most;
  }
  if (LaneGroup::lane() == 0) found[LaneGroup::group()] = most;
  gpu::sync_block();
  for (int i = 0; i < gpu::block_size() / kLanes; ++i) most = found[i] > most ? found[i] : most;
  return most;
}

// A block for each token and part of the columns. Every block finds the token's largest element itself, which costs
// less than to meet.
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kDigitThreads, 1) void make_digits(gpu::TokenView tokens, int64_t cols, int operands,
                                                                   Digits digits) {
  gpu::let_next_begin();
  gpu::wait_for_previous();
  const int token = static_cast<int>(gpu::block_index() / kDigitParts),
            part = static_cast<int>(gpu::block_index() % kDigitParts);
  const gpu::Pointer<const float> x = tokens.x + token * tokens.x_stride;
  const gpu::Pointer<uint32_t> found = gpu::cast<uint32_t>(gpu::shared_memory());
  const uint32_t magnitude = largest_magnitude(x, cols, found);
  const bool finite = magnitude < 0x7F800000u;
  const int shift = finite ? shift_of(magnitude) : 0;
  const auto fixed = [&](int64_t col) { return finite && col < cols ? fixed_point(x[col], shift) : 0; };

  // Four columns are a word of each of three operands.
  const int64_t fours = (cols + kPanelCols - 1) / kPanelCols * (kPanelCols / 4), first = fours * part / kDigitParts,
                end = fours * (part + 1) / kDigitParts;
  const auto place = [&](int64_t four, int column) {
    const int64_t step = four / (kPanelCols / 4);
    const int word = static_cast<int>(four % (kPanelCols / 4)), lane = column % kUnitColumns * 4 + word % 4;
    return ((step * operands + column / kUnitColumns) * kLanes + lane) * 2 + word / 4;
  };
  const gpu::Pointer<uint32_t> words = gpu::cast<uint32_t>(digits.operands);
  int64_t sum = 0;
  for (int64_t four = first + gpu::thread_index(); four < end; four += gpu::block_size()) {
    uint32_t packed[kDigits] = {};
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      int32_t rest = fixed(4 * four + i);
      sum += rest;
      ECMV_GPU_UNROLL
      for (int digit = 0; digit < kDigits; ++digit) {
        packed[digit] |= (static_cast<uint32_t>(rest) & 0xFF) << (8 * i);
        rest = (rest - static_cast<int8_t>(rest)) >> 8;
      }
    }
    ECMV_GPU_UNROLL
    for (int digit = 0; digit < kDigits; ++digit) words[place(four, token * kDigits + digit)] = packed[digit];
    if (token == tokens.batch - 1)  // columns that no token has
      for (int column = tokens.batch * kDigits; column < operands * kUnitColumns; ++column)
        words[place(four, column)] = 0;
  }

  ECMV_GPU_UNROLL
  for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += LaneGroup::shuffle_xor(sum, distance);
  const gpu::Pointer<int64_t> sums = gpu::cast<int64_t>(gpu::shared_memory()) + kDigitThreads / kLanes;
  if (LaneGroup::lane() == 0) sums[LaneGroup::group()] = sum;
  gpu::sync_block();
  if (gpu::thread_index() != 0) return;
  for (int i = 1; i < gpu::block_size() / kLanes; ++i) sum += sums[i];
  digits.sums[token * kDigitParts + part] = sum;
  if (part != 0) return;
  const int half = shift / 2;  // a product of doubles has the range
  digits.units[token] =
      finite ? 1.0 / (static_cast<double>(power_of_two(half)) * static_cast<double>(power_of_two(shift - half)))
             : static_cast<double>(gpu::float_of(0x7FC00000u));
}

// A row's result from its sums for the three digits.
struct Dequantise {
  double scale;
  int64_t first;  // zero_point / scale
  gpu::Pointer<const double> units;
  gpu::Pointer<const int64_t> sums;
  ECMV_GPU_DEVICE float value(int token, int64_t digit0, int64_t digit1, int64_t digit2) const {
    int64_t sum = 0;
    ECMV_GPU_UNROLL
    for (int part = 0; part < kDigitParts; ++part) sum += sums[token * kDigitParts + part];
    const int64_t products = digit0 + digit1 * 256 + digit2 * 65536 + first * sum;
    return static_cast<float>(static_cast<double>(products) * (units[token] * scale));
  }
};

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
