// The dot product of four neighbouring bytes, accumulated in int32, in the best form of each instruction set. Every
// fused kernel and the dense product use it. Per-target header: include it after foreach_target.h.
#if defined(ECMV_BACKENDS_CPU_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_BACKENDS_CPU_DOT_INL_H_
#undef ECMV_BACKENDS_CPU_DOT_INL_H_
#else
#define ECMV_BACKENDS_CPU_DOT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DotD8 = hn::ScalableTag<int8_t>;
using DotDU8 = hn::Repartition<uint8_t, DotD8>;
using DotD16 = hn::Repartition<int16_t, DotD8>;
using DotD32 = hn::Repartition<int32_t, DotD8>;

// True where one instruction multiplies unsigned by signed bytes (VNNI): then weights are stored or shifted to w + 128,
// and the caller subtracts 128 * sum(x) once.
inline constexpr bool kDotIsBiased = HWY_TARGET <= HWY_AVX3_DL && HWY_TARGET >= HWY_AVX3_SPR;

// x prepared once for many rows: unchanged, or, where there is no byte dot product (AVX3, AVX2, SSE4), split into even
// and odd bytes widened to int16, which halves the work of every row.
struct DotX {
  hn::Vec<DotD8> bytes;
#if HWY_ARCH_X86
  hn::Vec<DotD16> even, odd;
#endif
};

HWY_INLINE DotX PrepareX(hn::Vec<DotD8> x) {
  DotX prepared;
  prepared.bytes = x;
#if HWY_ARCH_X86
  const DotD16 d16;
  prepared.even = hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(d16, x)));
  prepared.odd = hn::ShiftRight<8>(hn::BitCast(d16, x));
#endif
  return prepared;
}

// acc += w . x over groups of four bytes, w int8. On targets with kDotIsBiased the sum of (w + 128) . x is accumulated.
HWY_INLINE hn::Vec<DotD32> DotAccumulate(hn::Vec<DotD8> w, const DotX& x, hn::Vec<DotD32> acc) {
  const DotD32 d32;
#if HWY_ARCH_X86
  if constexpr (kDotIsBiased) {
    const DotDU8 du8;
    const auto biased = hn::Xor(hn::BitCast(du8, w), hn::Set(du8, 0x80));
    return hn::SumOfMulQuadAccumulate(d32, biased, x.bytes, acc);
  } else {
    const DotD16 d16;
    const auto even = hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(d16, w)));
    const auto odd = hn::ShiftRight<8>(hn::BitCast(d16, w));
    auto unused = hn::Zero(d32);
    acc = hn::ReorderWidenMulAccumulate(d32, even, x.even, acc, unused);
    acc = hn::ReorderWidenMulAccumulate(d32, odd, x.odd, acc, unused);
    return acc;
  }
#else
  return hn::SumOfMulQuadAccumulate(d32, w, x.bytes, acc);
#endif
}

// For weights already stored as w + 128 (0..255): the sum of (w + 128) . x on every target.
HWY_INLINE hn::Vec<DotD32> DotAccumulateBiased(hn::Vec<DotDU8> biased, const DotX& x, hn::Vec<DotD32> acc) {
  const DotD32 d32;
#if HWY_ARCH_X86
  if constexpr (kDotIsBiased) {
    return hn::SumOfMulQuadAccumulate(d32, biased, x.bytes, acc);
  } else {
    const DotD16 d16;
    const hn::Repartition<uint16_t, DotD8> du16;
    const auto even = hn::And(hn::BitCast(d16, biased), hn::Set(d16, 0xFF));
    const auto odd = hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(du16, biased)));
    auto unused = hn::Zero(d32);
    acc = hn::ReorderWidenMulAccumulate(d32, even, x.even, acc, unused);
    acc = hn::ReorderWidenMulAccumulate(d32, odd, x.odd, acc, unused);
    return acc;
  }
#else
  return hn::SumOfMulQuadAccumulate(d32, biased, x.bytes, acc);
#endif
}

// Sum of all cols elements of x; x is padded with kVectorPaddingBytes zeros past cols.
HWY_INLINE int32_t SumX(const int8_t* HWY_RESTRICT x, int64_t cols) {
  int32_t sum = 0;
  for (int64_t i = 0; i < cols; ++i) sum += x[i];
  return sum;
}

}  // namespace ecmv::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_BACKENDS_CPU_DOT_INL_H_
