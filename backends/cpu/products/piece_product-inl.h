// The product of decoded pieces: a fused kernel decodes a few KiB of one or several blocks into the first-level cache
// and multiplies them there, whatever the shape of the matrix. Per-target header: include it after foreach_target.h.
#if defined(ECMV_BACKENDS_CPU_PIECE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_BACKENDS_CPU_PIECE_PRODUCT_INL_H_
#undef ECMV_BACKENDS_CPU_PIECE_PRODUCT_INL_H_
#else
#define ECMV_BACKENDS_CPU_PIECE_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backends/cpu/products/dot-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::backends::cpu::HWY_NAMESPACE {

// y[b][row] += the part of the row in piece b, for kBlocks pieces that hold the same elements of different blocks;
// `begin` is the first element's number within its block. Where kDotIsBiased, y must start at -128 * SumX(x). Reads up
// to a vector past the pieces.
template <int kBlocks>
HWY_INLINE void MultiplyPieces(const int8_t* HWY_RESTRICT pieces, int64_t stride, int64_t begin, int64_t count,
                               int64_t cols, const int8_t* HWY_RESTRICT x, int32_t* const* y) {
  const DotD8 d8;
  const DotD32 d32;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d8));
  int64_t row = begin / cols, col = begin % cols;
  while (count > 0) {
    const int64_t length = std::min(count, cols - col);
    const bool ends_row = col + length == cols;
    hn::Vec<DotD32> acc[kBlocks];
    for (int b = 0; b < kBlocks; ++b) acc[b] = hn::Zero(d32);
    int64_t i = 0;
    // Past the end of a row x is zero, so there whole vectors do no harm.
    for (; ends_row ? i < length : i + width <= length; i += width) {
      const DotX part = PrepareX(hn::LoadU(d8, x + col + i));
      for (int b = 0; b < kBlocks; ++b) acc[b] = DotAccumulate(hn::LoadU(d8, pieces + b * stride + i), part, acc[b]);
    }
    if (i < length) {
      const DotX part = PrepareX(hn::LoadN(d8, x + col + i, static_cast<size_t>(length - i)));
      for (int b = 0; b < kBlocks; ++b) acc[b] = DotAccumulate(hn::LoadU(d8, pieces + b * stride + i), part, acc[b]);
    }
    for (int b = 0; b < kBlocks; ++b) y[b][row] += hn::ReduceSum(d32, acc[b]);
    pieces += length;
    count -= length;
    col = 0;
    ++row;
  }
}

}  // namespace ecmv::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_BACKENDS_CPU_PIECE_PRODUCT_INL_H_
