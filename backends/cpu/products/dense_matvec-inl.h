// y = W x for uncompressed int8 rows. x is loaded (and prepared) once for kRows rows. Two accumulators a row hide the
// latency of the dot product. Per-target header: include it after foreach_target.h.
#if defined(ECMV_BACKENDS_CPU_DENSE_MATVEC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_BACKENDS_CPU_DENSE_MATVEC_INL_H_
#undef ECMV_BACKENDS_CPU_DENSE_MATVEC_INL_H_
#else
#define ECMV_BACKENDS_CPU_DENSE_MATVEC_INL_H_
#endif

#include <cstdint>

#include "backends/cpu/products/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::backends::cpu::HWY_NAMESPACE {

// Multiplies rows w[0], w[stride], ... and writes y[r] for r < kRows. Bytes kPrefetchBytes ahead of every row's
// position are requested into the L2 cache (0: none). Far ahead and into L2 beats near and into L1: hardware
// prefetchers stop at borders of 4 KiB pages, and the few miss buffers of an L1 hold a single core of Zen 4 near 16
// GB/s.
template <int kRows, int kPrefetchBytes>
HWY_INLINE void DenseRowGroup(const int8_t* HWY_RESTRICT w, int64_t stride, int64_t cols, const int8_t* HWY_RESTRICT x,
                              int32_t correction, int32_t* HWY_RESTRICT y) {
  const DotD8 d8;
  const DotD32 d32;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d8));
  hn::Vec<DotD32> acc0[kRows], acc1[kRows];
  for (int r = 0; r < kRows; ++r) acc0[r] = acc1[r] = hn::Zero(d32);
  int64_t c = 0;
  for (; c + 2 * lanes <= cols; c += 2 * lanes) {
    const DotX x0 = PrepareX(hn::LoadU(d8, x + c));
    const DotX x1 = PrepareX(hn::LoadU(d8, x + c + lanes));
    for (int r = 0; r < kRows; ++r) {
      const int8_t* row = w + r * stride + c;
      if constexpr (kPrefetchBytes > 0) {
        for (int64_t line = 0; line < 2 * lanes; line += 64) __builtin_prefetch(row + kPrefetchBytes + line, 0, 2);
      }
      acc0[r] = DotAccumulate(hn::LoadU(d8, row), x0, acc0[r]);
      acc1[r] = DotAccumulate(hn::LoadU(d8, row + lanes), x1, acc1[r]);
    }
  }
  for (; c < cols; c += lanes) {
    const size_t left = static_cast<size_t>(HWY_MIN(lanes, cols - c));
    // LoadN gives zeros past the end; where weights are biased these become 128 and meet x's zeros.
    const DotX xt = PrepareX(hn::LoadN(d8, x + c, left));
    for (int r = 0; r < kRows; ++r) acc0[r] = DotAccumulate(hn::LoadN(d8, w + r * stride + c, left), xt, acc0[r]);
  }
  for (int r = 0; r < kRows; ++r) y[r] = hn::ReduceSum(d32, hn::Add(acc0[r], acc1[r])) - correction;
}

// y[0..rows) = W x with W [rows, cols] at w, rows contiguous.
template <int kRows, int kPrefetchBytes>
HWY_INLINE void DenseMatvec(const int8_t* HWY_RESTRICT w, int64_t rows, int64_t cols, const int8_t* HWY_RESTRICT x,
                            int32_t* HWY_RESTRICT y) {
  const int32_t correction = kDotIsBiased ? 128 * SumX(x, cols) : 0;
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows)
    DenseRowGroup<kRows, kPrefetchBytes>(w + r * cols, cols, cols, x, correction, y + r);
  for (; r < rows; ++r) DenseRowGroup<1, kPrefetchBytes>(w + r * cols, cols, cols, x, correction, y + r);
}

// The same for kStreams rows at once, one from each of kStreams equal parts of the matrix: prefetchers then see as many
// long streams, which run from page to page, instead of neighbouring rows.
template <int kStreams>
HWY_INLINE void DenseMatvecStreams(const int8_t* HWY_RESTRICT w, int64_t rows, int64_t cols,
                                   const int8_t* HWY_RESTRICT x, int32_t* HWY_RESTRICT y) {
  const int32_t correction = kDotIsBiased ? 128 * SumX(x, cols) : 0;
  const int64_t part = rows / kStreams;
  for (int64_t r = 0; r < part; ++r) {
    int32_t sums[kStreams];
    DenseRowGroup<kStreams, 0>(w + r * cols, part * cols, cols, x, correction, sums);
    for (int s = 0; s < kStreams; ++s) y[s * part + r] = sums[s];
  }
  for (int64_t r = kStreams * part; r < rows; ++r) DenseRowGroup<1, 0>(w + r * cols, cols, cols, x, correction, y + r);
}

}  // namespace ecmv::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_BACKENDS_CPU_DENSE_MATVEC_INL_H_
