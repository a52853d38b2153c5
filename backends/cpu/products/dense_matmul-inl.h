// Y = W X in float32 for a batch of tokens and uncompressed rows. The uncompressed codecs and unfused products use it,
// and fused kernels multiply decoded pieces with it. kRows rows times kTokens tokens share their loads in registers;
// for many tokens, columns go piece by piece. Per-target header: include it after foreach_target.h.
#if defined(ECMV_BACKENDS_CPU_DENSE_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_BACKENDS_CPU_DENSE_MATMUL_INL_H_
#undef ECMV_BACKENDS_CPU_DENSE_MATMUL_INL_H_
#else
#define ECMV_BACKENDS_CPU_DENSE_MATMUL_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatD = hn::ScalableTag<float>;

// Loads stored elements as vectors of float32, in order. kWhole: a row's last vector is zero past the row's end.
struct FloatElements {
  using Stored = float;
  static constexpr bool kWhole = true;
  static HWY_INLINE hn::Vec<FloatD> Load(const float* p) { return hn::LoadU(FloatD(), p); }
};
struct Bf16Elements {
  using Stored = uint16_t;
  static constexpr bool kWhole = false;
  static HWY_INLINE hn::Vec<FloatD> Load(const uint16_t* p) {
    const hn::Rebind<uint16_t, FloatD> bits;
    const hn::RebindToUnsigned<FloatD> du;
    return hn::BitCast(FloatD(), hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(bits, p))));
  }
};

// The first `count` elements of a vector, then zeros. It goes through memory, once a row: LoadN is long code for 16-bit
// elements in every form below, and raw_bf16 took 41 s to compile with it instead of 12.
template <class Elements>
HWY_INLINE hn::Vec<FloatD> LoadFirst(const typename Elements::Stored* HWY_RESTRICT p, int64_t count) {
  HWY_ALIGN typename Elements::Stored last[hn::MaxLanes(FloatD())] = {};
  for (int64_t i = 0; i < count; ++i) last[i] = p[i];
  return Elements::Load(last);
}

// Where results go, and whether they are added to the values there.
struct Products {
  float* y;        // of the first row and token
  int64_t stride;  // from token to token
  bool add;
};

// Multiplies rows w, w + stride, ... over columns [0, count) by the tokens at x, x + x_stride, ..., which may be read
// up to a vector past `count`. kPrefetchBytes: as in dense_matvec-inl.h.
template <class Elements, int kRows, int kTokens, int kPrefetchBytes>
HWY_INLINE void MatmulGroup(const typename Elements::Stored* HWY_RESTRICT w, int64_t stride, int64_t count,
                            const float* HWY_RESTRICT x, int64_t x_stride, Products out) {
  const FloatD df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  // A few sums would wait for each other's additions, so there are two sets of them.
  constexpr int kSets = kRows * kTokens <= 4 ? 2 : 1;
  hn::Vec<FloatD> sums[kSets][kRows][kTokens];
  for (int s = 0; s < kSets; ++s)
    for (int r = 0; r < kRows; ++r)
      for (int t = 0; t < kTokens; ++t) sums[s][r][t] = hn::Zero(df);
  int64_t c = 0;
  for (; c + kSets * lanes <= count; c += kSets * lanes) {
    for (int s = 0; s < kSets; ++s) {
      hn::Vec<FloatD> tokens[kTokens];
      for (int t = 0; t < kTokens; ++t) tokens[t] = hn::LoadU(df, x + t * x_stride + c + s * lanes);
      for (int r = 0; r < kRows; ++r) {
        const auto* row = w + r * stride + c + s * lanes;
        if constexpr (kPrefetchBytes > 0) {
          const char* ahead = reinterpret_cast<const char*>(row) + kPrefetchBytes;
          for (int64_t line = 0; line < lanes * static_cast<int64_t>(sizeof(*row)); line += 64)
            __builtin_prefetch(ahead + line, 0, 2);
        }
        const auto weights = Elements::Load(row);
        for (int t = 0; t < kTokens; ++t) sums[s][r][t] = hn::MulAdd(weights, tokens[t], sums[s][r][t]);
      }
    }
  }
  for (; c < count; c += lanes) {
    hn::Vec<FloatD> tokens[kTokens];
    for (int t = 0; t < kTokens; ++t) tokens[t] = hn::LoadU(df, x + t * x_stride + c);
    for (int r = 0; r < kRows; ++r) {
      const auto* row = w + r * stride + c;
      const auto weights =
          Elements::kWhole || c + lanes <= count ? Elements::Load(row) : LoadFirst<Elements>(row, count - c);
      for (int t = 0; t < kTokens; ++t) sums[0][r][t] = hn::MulAdd(weights, tokens[t], sums[0][r][t]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int t = 0; t < kTokens; ++t) {
      auto sum = sums[0][r][t];
      for (int s = 1; s < kSets; ++s) sum = hn::Add(sum, sums[s][r][t]);
      float& y = out.y[t * out.stride + r];
      y = (out.add ? y : 0.0f) + hn::ReduceSum(df, sum);
    }
}

// Four rows times four tokens keep 16 sums, which fill all registers before AVX-512.
inline constexpr int kTokensAtOnce = HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3 ? 2 : 4;

// Any number of tokens. Not inlined, because several forms of a kernel share it.
template <class Elements, int kRows, int kPrefetchBytes>
HWY_NOINLINE void MatmulRows(const typename Elements::Stored* HWY_RESTRICT w, int64_t stride, int64_t count,
                             const float* HWY_RESTRICT x, int64_t x_stride, int batch, Products out) {
  int t = 0;
  for (; t + kTokensAtOnce <= batch; t += kTokensAtOnce)
    MatmulGroup<Elements, kRows, kTokensAtOnce, kPrefetchBytes>(w, stride, count, x + t * x_stride, x_stride,
                                                                {out.y + t * out.stride, out.stride, out.add});
  if constexpr (kTokensAtOnce == 4)
    for (; t + 2 <= batch; t += 2)
      MatmulGroup<Elements, kRows, 2, kPrefetchBytes>(w, stride, count, x + t * x_stride, x_stride,
                                                      {out.y + t * out.stride, out.stride, out.add});
  if (t < batch)
    MatmulGroup<Elements, kRows, 1, kPrefetchBytes>(w, stride, count, x + t * x_stride, x_stride,
                                                    {out.y + t * out.stride, out.stride, out.add});
}

// Columns to widen at once for many tokens: with the tokens' parts of them they fill a first-level cache.
inline constexpr int64_t kWidenedColumns = 1024;

// `count` elements as float32, and zeros up to the end of the last vector.
template <class Elements, int kPrefetchBytes>
HWY_INLINE void WidenRow(const typename Elements::Stored* HWY_RESTRICT w, int64_t count, float* HWY_RESTRICT out) {
  const FloatD df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    if constexpr (kPrefetchBytes > 0) __builtin_prefetch(reinterpret_cast<const char*>(w + c) + kPrefetchBytes, 0, 2);
    hn::StoreU(Elements::Load(w + c), df, out + c);
  }
  if (c < count) hn::StoreU(LoadFirst<Elements>(w + c, count - c), df, out + c);
}

// Columns [begin, end) of up to kRows rows, widened piece by piece into contiguous memory.
template <class Elements, int kRows, int kPrefetchBytes>
HWY_INLINE void MatmulWidened(const typename Elements::Stored* HWY_RESTRICT w, int64_t rows, int64_t cols,
                              int64_t begin, int64_t end, const float* HWY_RESTRICT x, int64_t x_stride, int batch,
                              Products out) {
  HWY_ALIGN float widened[kRows * kWidenedColumns];
  for (; begin < end; begin += kWidenedColumns) {
    const int64_t count = HWY_MIN(kWidenedColumns, end - begin);
    for (int64_t r = 0; r < rows; ++r)
      WidenRow<Elements, kPrefetchBytes>(w + r * cols + begin, count, widened + r * kWidenedColumns);
    out.add = begin > 0;
    if (rows == kRows)
      MatmulRows<FloatElements, kRows, 0>(widened, kWidenedColumns, count, x + begin, x_stride, batch, out);
    else
      for (int64_t r = 0; r < rows; ++r)
        MatmulRows<FloatElements, 1, 0>(widened + r * kWidenedColumns, kWidenedColumns, count, x + begin, x_stride,
                                        batch, {out.y + r, out.stride, out.add});
  }
}

// y[t * y_stride + r] = W x_t for W [rows, cols] at w, rows contiguous. Few tokens are multiplied with rows as they are
// loaded. For more tokens rows are widened once: 16 passes over four rows that lie a power of two apart took 2.4 times
// as long. Columns are split only where the tokens would not fit half of a second-level cache, since parts of rows are
// slow to read.
template <class Elements, int kRows, int kPrefetchBytes>
HWY_INLINE void DenseMatmul(const typename Elements::Stored* HWY_RESTRICT w, int64_t rows, int64_t cols,
                            const float* HWY_RESTRICT x, int64_t x_stride, int batch, float* y, int64_t y_stride) {
  if (batch <= kTokensAtOnce || cols == 0) {
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows)
      MatmulRows<Elements, kRows, kPrefetchBytes>(w + r * cols, cols, cols, x, x_stride, batch,
                                                  {y + r, y_stride, false});
    for (; r < rows; ++r)
      MatmulRows<Elements, 1, kPrefetchBytes>(w + r * cols, cols, cols, x, x_stride, batch, {y + r, y_stride, false});
    return;
  }
  const int64_t fit = (int64_t{128} << 10) / batch, step = cols <= fit ? cols : fit / kWidenedColumns * kWidenedColumns;
  for (int64_t begin = 0; begin < cols; begin += step)
    for (int64_t r = 0; r < rows; r += kRows)
      MatmulWidened<Elements, kRows, kPrefetchBytes>(w + r * cols, HWY_MIN(int64_t{kRows}, rows - r), cols, begin,
                                                     HWY_MIN(begin + step, cols), x, x_stride, batch,
                                                     {y + r, y_stride, false});
}

}  // namespace ecmv::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_BACKENDS_CPU_DENSE_MATMUL_INL_H_
