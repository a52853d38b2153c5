// Operations of one lane on bytes and bits of registers: dot products of four bytes, sums of bytes, byte permutation,
// funnel shifts, bit counts. Devices have an instruction for most of them. The portable forms run in the emulator and
// define the results.
#pragma once

#include <bit>
#include <cstdint>

#include "backends/gpu/launch.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// sum + a[0]*b[0] + ... + a[3]*b[3] for bytes in registers, both signed.
ECMV_GPU_DEVICE int32_t dot4(int32_t a, int32_t b, int32_t sum) {
#if defined(__HIP_DEVICE_COMPILE__) && defined(__HIP__)
  return __builtin_amdgcn_sdot4(a, b, sum, false);
#elif defined(__CUDA_ARCH__)
  return __dp4a(a, b, sum);
#else
  for (int i = 0; i < 32; i += 8) sum += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  return sum;
#endif
}

// dot4 with unsigned bytes in `a`.
ECMV_GPU_DEVICE int32_t dot4_unsigned_signed(uint32_t a, int32_t b, int32_t sum) {
#if defined(__HIP_DEVICE_COMPILE__) && defined(__HIP__)
  // There is no mixed product before gfx11, so a = (a - 128) + 128.
  sum += __builtin_amdgcn_sdot4(0x01010101, b, 0, false) << 7;
  return __builtin_amdgcn_sdot4(static_cast<int32_t>(a ^ 0x80808080u), b, sum, false);
#elif defined(__CUDA_ARCH__)
  int32_t result;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
#else
  for (int i = 0; i < 32; i += 8) sum += static_cast<uint8_t>(a >> i) * static_cast<int8_t>(b >> i);
  return sum;
#endif
}

// Keeps a number in its register; nvcc would recompute it in every step of a loop that uses it.
ECMV_GPU_DEVICE void keep(int& number) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(number));
#else
  (void)number;
#endif
}

// The bits of if_one where the mask has ones, and of if_zero elsewhere.
ECMV_GPU_DEVICE uint32_t select_bits(uint32_t mask, uint32_t if_one, uint32_t if_zero) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__)
  // nvcc makes two instructions of the formula if the mask is a constant.
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(result) : "r"(mask), "r"(if_one), "r"(if_zero));
  return result;
#else
  return (if_one & mask) | (if_zero & ~mask);
#endif
}

// Byte i of the result is byte (selector >> 4 i) & 7 of the eight bytes that low and high make up.
ECMV_GPU_DEVICE uint32_t byte_permute(uint32_t low, uint32_t high, uint32_t selector) {
#if defined(__HIP_DEVICE_COMPILE__) && defined(__HIP__)
  const uint32_t bytes = (selector & 7) | (selector & 0x70) << 4 | (selector & 0x700) << 8 | (selector & 0x7000) << 12;
  return __builtin_amdgcn_perm(high, low, bytes);
#elif defined(__CUDA_ARCH__)
  return __byte_perm(low, high, selector);
#else
  const uint64_t both = uint64_t{high} << 32 | low;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<uint32_t>(both >> (8 * (selector >> (4 * i) & 7)) & 0xFF) << (8 * i);
  return result;
#endif
}

// 0xFF in each byte whose highest bit is set, otherwise 0.
ECMV_GPU_DEVICE uint32_t spread_signs(uint32_t bytes) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__)
  uint32_t result;
  asm("prmt.b32 %0, %1, 0, 0xBA98;" : "=r"(result) : "r"(bytes));
  return result;
#else
  return (bytes >> 7 & 0x01010101u) * 0xFF;
#endif
}

// a + b in each of four bytes, modulo 256.
ECMV_GPU_DEVICE uint32_t add_bytes(uint32_t a, uint32_t b) {
  return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u);
}

// Bits [n, n + 32) of the 64-bit number (high, low), with n modulo 32.
ECMV_GPU_DEVICE uint32_t funnel_shift_right(uint32_t low, uint32_t high, uint32_t n) {
#if defined(__HIP_DEVICE_COMPILE__) && defined(__HIP__)
  return __builtin_amdgcn_alignbit(high, low, n);
#elif defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, n);
#else
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (n & 31));
#endif
}

// The upper half of the 64-bit number (high, low), shifted left by n modulo 32.
ECMV_GPU_DEVICE uint32_t funnel_shift_left(uint32_t low, uint32_t high, uint32_t n) {
#if defined(__HIP_DEVICE_COMPILE__) && defined(__HIP__)
  return (n & 31) == 0 ? high : __builtin_amdgcn_alignbit(high, low, 0u - n);
#elif defined(__CUDA_ARCH__)
  return __funnelshift_l(low, high, n);
#else
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) << (n & 31) >> 32);
#endif
}

ECMV_GPU_DEVICE int popcount(uint32_t bits) {
#if defined(__HIP_DEVICE_COMPILE__) || defined(__CUDA_ARCH__)
  return __popc(bits);
#else
  return std::popcount(bits);
#endif
}
ECMV_GPU_DEVICE int popcount(uint64_t bits) {
#if defined(__HIP_DEVICE_COMPILE__) || defined(__CUDA_ARCH__)
  return __popcll(bits);
#else
  return std::popcount(bits);
#endif
}

// words[k] for words in registers, which have no addresses.
template <int kCount>
ECMV_GPU_DEVICE uint32_t picked(const uint32_t (&words)[kCount], int k) {
  uint32_t word = words[0];
  ECMV_GPU_UNROLL
  for (int i = 1; i < kCount; ++i) word = k == i ? words[i] : word;
  return word;
}

// Zero bits above the highest one bit; 32 for 0.
ECMV_GPU_DEVICE int leading_zeros(uint32_t bits) {
#if defined(__HIP_DEVICE_COMPILE__) || defined(__CUDA_ARCH__)
  return __clz(static_cast<int>(bits));
#else
  return std::countl_zero(bits);
#endif
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
