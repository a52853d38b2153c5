// Products of small matrices of bf16 by 32 lanes together, summed in float32. They use the matrix units of NVIDIA
// devices since sm_80; elsewhere and in the emulator shuffles and multiply-adds form the same products. Products are
// exact. Matrix units cut where they add, so sums are off by more than rounding would allow: token_rounding().
#pragma once

#include <bit>
#include <cstdint>

#include "backends/gpu/products/dense_matmul.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// multiply_tokens() for matrix units without bf16. On CUDA devices it is a function call: inlined it made kernels of
// more than 35,000 lines of PTX, and packed_outliers was not compiled for sm_75 within half an hour. As a call it
// takes 3 minutes.
#if defined(__HIP__) || defined(ECMV_GPU_EMULATOR)
#define ECMV_GPU_SHUFFLED ECMV_GPU_DEVICE
#else
#define ECMV_GPU_SHUFFLED inline __device__ __noinline__
#endif
struct TokenSums {
  float of[4];
};
ECMV_GPU_SHUFFLED TokenSums multiply_shuffled(uint4 a, uint2 b, TokenSums c) {
  using LaneGroup = Lanes<32>;
  const int g = LaneGroup::lane() / 4, t = LaneGroup::lane() % 4;
  const uint64_t upper = uint64_t{a.z} << 32 | a.x, lower = uint64_t{a.w} << 32 | a.y,
                 column = uint64_t{b.y} << 32 | b.x;
  const auto dot = [](uint64_t row, uint64_t with, float sum) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i)
      sum += float_of(static_cast<uint32_t>(row >> (16 * i)) << 16) *
             float_of(static_cast<uint32_t>(with >> (16 * i)) << 16);
    return sum;
  };
  for (int part = 0; part < 4; ++part) {
    const uint64_t row = LaneGroup::shuffle(upper, 4 * g + part), row_below = LaneGroup::shuffle(lower, 4 * g + part);
    const uint64_t left = LaneGroup::shuffle(column, 8 * t + part),
                   right = LaneGroup::shuffle(column, 8 * t + 4 + part);
    c.of[0] = dot(row, left, c.of[0]);
    c.of[1] = dot(row, right, c.of[1]);
    c.of[2] = dot(row_below, left, c.of[2]);
    c.of[3] = dot(row_below, right, c.of[3]);
  }
  return c;
}
#undef ECMV_GPU_SHUFFLED

// c += A B for A [16, 16] and B [16, 8] of bf16, dealt to the lanes 4 g + t of a group of 32, two numbers a word: a.x
// holds A[g, 2t..], a.y A[g + 8, 2t..], a.z A[g, 8 + 2t..], a.w A[g + 8, 8 + 2t..]; b.x holds B[2t.., g], b.y B[8 +
// 2t.., g]; c[0] is C[g, 2t], c[1] C[g, 2t + 1], c[2] C[g + 8, 2t], c[3] C[g + 8, 2t + 1].
ECMV_GPU_DEVICE void multiply_tokens(uint4 a, uint2 b, float (&c)[4]) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
#else
  const TokenSums sums = multiply_shuffled(a, b, {{c[0], c[1], c[2], c[3]}});
  ECMV_GPU_UNROLL
  for (int i = 0; i < 4; ++i) c[i] = sums.of[i];
#endif
}

// Two int8 elements, bytes 2 kPair and 2 kPair + 1 of a word, as two numbers of bf16. 0x4300 with a byte below is 128 +
// its lower seven bits, or, if its highest bit is set, 256 and twice as much. So the number with that bit cleared minus
// the number with only that bit is the element, and everything is exact. `exponents`: kInt8Exponents.
inline constexpr uint32_t kInt8Exponents = 0x43434343;
template <int kPair>
ECMV_GPU_DEVICE uint32_t int8_numbers(uint32_t word, uint32_t exponents) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const uint32_t bytes = byte_permute(word, exponents, kPair == 0 ? 0x4140 : 0x4342);
  const uint32_t low = bytes & 0xFF7FFF7Fu, high = bytes & 0xFF80FF80u;
  uint32_t numbers;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(numbers) : "r"(high), "r"(0xBF80BF80u), "r"(low));
  return numbers;
#else
  (void)exponents;
  const auto number = [&](int byte) { return bits_of(static_cast<float>(static_cast<int8_t>(word >> (8 * byte)))); };
  return number(2 * kPair) >> 16 | (number(2 * kPair + 1) & 0xFFFF0000u);
#endif
}

// Two fields of at most 7 bits, bytes 2 kPair and 2 kPair + 1 of a word, as the integers that they stand for, in bf16.
// `to_element` is the integer of field 0 minus 128, twice: 0x4300 with a field below is 128 more than the field. Exact
// if it and the integers have at most 8 bits.
template <int kPair>
ECMV_GPU_DEVICE uint32_t field_numbers(uint32_t word, uint32_t exponents, uint32_t to_element) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const uint32_t fields = byte_permute(word, exponents, kPair == 0 ? 0x4140 : 0x4342);
  uint32_t numbers;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(numbers) : "r"(fields), "r"(0x3F803F80u), "r"(to_element));
  return numbers;
#else
  (void)exponents;
  const float further = float_of(to_element << 16) + 128;
  const auto number = [&](int byte) { return bits_of(static_cast<float>(word >> (8 * byte) & 0xFF) + further); };
  return number(2 * kPair) >> 16 | (number(2 * kPair + 1) & 0xFFFF0000u);
#endif
}
inline uint32_t field_to_element(int lowest) {
  const uint32_t half = std::bit_cast<uint32_t>(static_cast<float>(lowest - 128)) >> 16;
  return half << 16 | half;
}

// Two numbers of f8 (e4m3), with their bits at bf16's places: the sign in bit 15 of a half, the exponent from bit 7 on,
// the mantissa in bits 6..4. Read as bf16 they are 2^-120 times their value, subnormal ones too. Exact; f8's NaN
// becomes 480.
inline constexpr uint32_t kF8Raw = 0x80708070, kF8Exponents = 0x07800780;  // sign and mantissa; exponent
ECMV_GPU_DEVICE uint32_t scaled_f8(uint32_t bits) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t numbers;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(numbers) : "r"(bits), "r"(0x7B807B80u), "r"(0u));
  return numbers;
#else
  return bits_of(float_of(bits << 16) * 0x1p120f) >> 16 | bits_of(float_of(bits & 0xFFFF0000u) * 0x1p120f);
#endif
}
// Takes bytes 2 kPair and 2 kPair + 1 of a word.
template <int kPair>
ECMV_GPU_DEVICE uint32_t f8_numbers(uint32_t word) {
  const uint32_t above = byte_permute(word, 0, kPair == 0 ? 0x1404 : 0x3424);  // in the upper byte of each half
  return scaled_f8(select_bits(0x80008000u, above, above >> 4 & (kF8Exponents | (kF8Raw & 0x7FFF7FFF))));
}

// bf16_of() of a sum, but NaNs become the one NaN that the instruction gives. Operations on a sum's bits make ptxas
// think that it is read while products of a warpgroup are under way, and wait for each of these (its remark C7514).
ECMV_GPU_DEVICE uint16_t bf16_of_sum(float sum) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(sum));
  return bits;
#else
  return bf16_of(sum);
#endif
}

// The tokens and results of a product with tokens of bf16.
struct Bf16Tokens {
  Pointer<const uint16_t> x;  // [batch, x_stride]
  int64_t x_stride;
  Pointer<float> y;  // [batch, rows]
  int64_t rows;
  int batch;
  Pointer<const std::byte> blocks{};  // the tokens again (token_copies.h), for lane groups that multiply together
  Pointer<uint16_t> y_bf16{};         // where `rounds`, results go here instead
  bool rounds = false;
  bool in_fours = false;  // four neighbouring results may be stored at once

  // Calls store_all(put): put(at, sum) stores a result at place `at` of [batch, rows]. Whether to round is asked once.
  template <typename StoreAll>
  ECMV_GPU_DEVICE void store(StoreAll store_all) const {
    if (rounds)
      store_all([&](int64_t at, float sum) { y_bf16[at] = bf16_of_sum(sum); });
    else
      store_all([&](int64_t at, float sum) { y[at] = sum; });
  }
  // The same where in_fours, with put(results, sum, next sum) for two neighbouring results, which begin at an even
  // place, and the results at place `first`. As bf16_of_sum(), the instructions take sums as they are.
  template <typename StoreAll>
  ECMV_GPU_DEVICE void store_pairs(int64_t first, StoreAll store_all) const {
    const auto store_bf16 = [&](Pointer<uint16_t> at, float sum, float next) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
      uint32_t both;
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(next), "f"(sum));
      *cast<uint32_t>(at) = both;
#else
      at[0] = bf16_of_sum(sum), at[1] = bf16_of_sum(next);
#endif
    };
    const auto store_floats = [&](Pointer<float> at, float sum, float next) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__)
      asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(at), "f"(sum), "f"(next) : "memory");
#else
      at[0] = sum, at[1] = next;
#endif
    };
    if (rounds)
      store_all(store_bf16, y_bf16 + first);
    else
      store_all(store_floats, y + first);
  }
  // Sums of shares, which a later launch adds and rounds, go to `scratch`.
  void store_shares(std::byte* scratch) { y = reinterpret_cast<float*>(scratch), rounds = false; }
};
// `batch` tokens from `first` on.
inline Bf16Tokens bf16_tokens_of(const MatmulArgs& args, int batch, int first = 0) {
  Bf16Tokens tokens{args.x_bf16 + first * args.x_stride, args.x_stride, nullptr, args.y_stride, batch};
  tokens.rounds = args.y_bf16 != nullptr;
  if (tokens.rounds)
    tokens.y_bf16 = args.y_bf16 + first * args.y_stride;
  else
    tokens.y = args.y + first * args.y_stride;
  return tokens;
}

// Whether four neighbouring results of the tokens from `first` on may be stored at once; `in_scratch`: to the scratch.
inline bool stores_in_fours(const MatmulArgs& args, int first, bool in_scratch) {
  const auto whole = [&](auto* y) {
    return y == nullptr || reinterpret_cast<uintptr_t>(y + first * args.y_stride) % (4 * sizeof *y) == 0;
  };
  return args.y_stride % 4 == 0 && (in_scratch || (whole(args.y) && whole(args.y_bf16)));
}

// The rounding of sums by multiply_tokens over at most `chain_cols` columns each, `parts` of which are added up
// afterwards. Matrix units add 16 products at once since sm_90 and 8 before, and cut (Fasi, Higham, Mikaitis, Pranesh,
// Numerical behavior of NVIDIA tensor cores, 2021; for Hopper: Li et al., FTTN, 2024).
// tests/kernels/products/matmul_test.cpp has sums that lose the most.
inline ProductRounding token_rounding(int64_t chain_cols, int64_t parts) {
  return {.more_roundings = static_cast<int>(parts), .unit_cols = 8, .chain_cols = chain_cols};
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
