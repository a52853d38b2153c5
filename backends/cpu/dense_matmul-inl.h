// Y = W X for a batch of tokens in float32, of uncompressed rows: what the uncompressed codecs and unfused products use, and what a fused
// kernel multiplies decoded pieces with. kRows rows times kTokens tokens share their loads in registers; where the tokens outgrow
// the second-level cache, columns go piece by piece. Per-target header: include it behind foreach_target.h.
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

// Stored elements as vectors of float32, in their order. LoadFirst: the first `count` of a vector, zeros behind them.
struct FloatElements {
  using Stored = float;
  static HWY_INLINE hn::Vec<FloatD> Load(const float* p) { return hn::LoadU(FloatD(), p); }
  static HWY_INLINE hn::Vec<FloatD> LoadFirst(const float* p, size_t count) { return hn::LoadN(FloatD(), p, count); }
};
struct Bf16Elements {
  using Stored = uint16_t;
  using Bits = hn::Rebind<uint16_t, FloatD>;
  static HWY_INLINE hn::Vec<FloatD> Widen(hn::Vec<Bits> bits) {
    const hn::RebindToUnsigned<FloatD> du;
    return hn::BitCast(FloatD(), hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  }
  static HWY_INLINE hn::Vec<FloatD> Load(const uint16_t* p) { return Widen(hn::LoadU(Bits(), p)); }
  static HWY_INLINE hn::Vec<FloatD> LoadFirst(const uint16_t* p, size_t count) { return Widen(hn::LoadN(Bits(), p, count)); }
};
struct Int8Elements {
  using Stored = int8_t;
  using Bytes = hn::Rebind<int8_t, FloatD>;
  static HWY_INLINE hn::Vec<FloatD> Widen(hn::Vec<Bytes> bytes) { return hn::ConvertTo(FloatD(), hn::PromoteTo(hn::RebindToSigned<FloatD>(), bytes)); }
  static HWY_INLINE hn::Vec<FloatD> Load(const int8_t* p) { return Widen(hn::LoadU(Bytes(), p)); }
  static HWY_INLINE hn::Vec<FloatD> LoadFirst(const int8_t* p, size_t count) { return Widen(hn::LoadN(Bytes(), p, count)); }
};

// Where results go and whether they are added to what is there.
struct Products {
  float* y;        // of the first row and token
  int64_t stride;  // from token to token
  bool add;
};

// Rows w, w + stride, ...; columns [0, count) of them and of the tokens at x, x + x_stride, ... `x` may be read up to a vector behind
// `count`, where it is zero or meets zeros. kPrefetchBytes: as in dense_matvec-inl.h.
template <class Elements, int kRows, int kTokens, int kPrefetchBytes>
HWY_INLINE void MatmulGroup(const typename Elements::Stored* HWY_RESTRICT w, int64_t stride, int64_t count, const float* HWY_RESTRICT x, int64_t x_stride, Products out) {
  const FloatD df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  // Few sums alone would wait for each other's additions: then two sets of them.
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
          for (int64_t line = 0; line < lanes * static_cast<int64_t>(sizeof(*row)); line += 64) __builtin_prefetch(ahead + line, 0, 2);
        }
        const auto weights = Elements::Load(row);
        for (int t = 0; t < kTokens; ++t) sums[s][r][t] = hn::MulAdd(weights, tokens[t], sums[s][r][t]);
      }
    }
  }
  for (; c < count; c += lanes) {
    const size_t left = static_cast<size_t>(HWY_MIN(lanes, count - c));
    for (int r = 0; r < kRows; ++r) {
      const auto weights = Elements::LoadFirst(w + r * stride + c, left);
      for (int t = 0; t < kTokens; ++t) sums[0][r][t] = hn::MulAdd(weights, hn::LoadN(df, x + t * x_stride + c, left), sums[0][r][t]);
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

// Four rows times four tokens keep 16 sums: as many as there are registers at all before AVX-512.
inline constexpr int kTokensAtOnce = HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3 ? 2 : 4;

// The same for any number of tokens.
template <class Elements, int kRows, int kPrefetchBytes>
HWY_INLINE void MatmulRows(const typename Elements::Stored* HWY_RESTRICT w, int64_t stride, int64_t count, const float* HWY_RESTRICT x, int64_t x_stride, int batch, Products out) {
  int t = 0;
  for (; t + kTokensAtOnce <= batch; t += kTokensAtOnce)
    MatmulGroup<Elements, kRows, kTokensAtOnce, kPrefetchBytes>(w, stride, count, x + t * x_stride, x_stride, {out.y + t * out.stride, out.stride, out.add});
  const float* rest = x + t * x_stride;
  const Products rest_out{out.y + t * out.stride, out.stride, out.add};
  if (batch - t == 1) return MatmulGroup<Elements, kRows, 1, kPrefetchBytes>(w, stride, count, rest, x_stride, rest_out);
  if constexpr (kTokensAtOnce == 4) {
    if (batch - t == 2) return MatmulGroup<Elements, kRows, 2, kPrefetchBytes>(w, stride, count, rest, x_stride, rest_out);
    if (batch - t == 3) return MatmulGroup<Elements, kRows, 3, kPrefetchBytes>(w, stride, count, rest, x_stride, rest_out);
  }
}

// Columns whose tokens take at most 256 KiB.
HWY_INLINE int64_t ColumnsAtOnce(int64_t cols, int batch) {
  const int64_t at_most = (int64_t{64} << 10) / batch;
  return cols <= at_most ? HWY_MAX(cols, int64_t{1}) : HWY_MAX(at_most / 64 * 64, int64_t{512});
}

// y[t * y_stride + r] = W x_t for W [rows, cols] at w, rows contiguous.
template <class Elements, int kRows, int kPrefetchBytes>
HWY_INLINE void DenseMatmul(const typename Elements::Stored* HWY_RESTRICT w, int64_t rows, int64_t cols, const float* HWY_RESTRICT x, int64_t x_stride, int batch, float* y,
                            int64_t y_stride) {
  const int64_t step = ColumnsAtOnce(cols, batch);
  int64_t begin = 0;
  do {
    const int64_t count = HWY_MIN(step, cols - begin);
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows)
      MatmulRows<Elements, kRows, kPrefetchBytes>(w + r * cols + begin, cols, count, x + begin, x_stride, batch, {y + r, y_stride, begin > 0});
    for (; r < rows; ++r) MatmulRows<Elements, 1, kPrefetchBytes>(w + r * cols + begin, cols, count, x + begin, x_stride, batch, {y + r, y_stride, begin > 0});
    begin += step;
  } while (begin < cols);
}

}  // namespace ecmv::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_BACKENDS_CPU_DENSE_MATMUL_INL_H_
