// Dynamic dispatch around dense_matvec-inl.h and the read-bandwidth loop.
#include "backends/cpu/products/dense_matvec.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/dense_matvec.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/dense_matvec-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::backends::cpu::HWY_NAMESPACE {

// A near cache holds the tile, so nothing is prefetched.
void Dense(const int8_t* w, int64_t rows, int64_t cols, const int8_t* x, int32_t* y) {
  DenseMatvec<4, 0>(w, rows, cols, x, y);
}

// The best way to read depends on the machine's prefetchers: `kStreams` parts at once, with or without a request to L2
// far ahead.
template <int kStreams, int kPrefetchBytes>
uint64_t ReadStreams(const uint8_t* HWY_RESTRICT data, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const hn::ScalableTag<uint64_t> d64;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t part = bytes / kStreams / (4 * lanes) * (4 * lanes);
  // Sums of 8 bytes never overflow, so the total tells the caller that every byte was read. One such instruction a
  // cycle still outruns any memory.
  auto s0 = hn::Zero(d64), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t i = 0; i < part; i += 4 * lanes) {
    for (int s = 0; s < kStreams; ++s) {
      const uint8_t* p = data + s * part + i;
      for (int64_t line = 0; kPrefetchBytes > 0 && line < 4 * lanes; line += 64)
        __builtin_prefetch(p + kPrefetchBytes + line, 0, 2);
      s0 = hn::Add(s0, hn::SumsOf8(hn::LoadU(d, p)));
      s1 = hn::Add(s1, hn::SumsOf8(hn::LoadU(d, p + lanes)));
      s2 = hn::Add(s2, hn::SumsOf8(hn::LoadU(d, p + 2 * lanes)));
      s3 = hn::Add(s3, hn::SumsOf8(hn::LoadU(d, p + 3 * lanes)));
    }
  }
  uint64_t sum = hn::ReduceSum(d64, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
  for (int64_t i = kStreams * part; i < bytes; ++i) sum += data[i];
  return sum;
}

uint64_t ReadAll(const uint8_t* data, int64_t bytes, int method) {
  switch (method) {
    case 0: return ReadStreams<1, 0>(data, bytes);
    case 1: return ReadStreams<1, 16384>(data, bytes);
    case 2: return ReadStreams<4, 16384>(data, bytes);
    default: return ReadStreams<8, 0>(data, bytes);
  }
}

}  // namespace ecmv::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::backends::cpu {

HWY_EXPORT(Dense);
HWY_EXPORT(ReadAll);

void dense_matvec_scalar(const int8_t* w, int64_t rows, int64_t cols, const int8_t* x, int32_t* y) {
  for (int64_t r = 0; r < rows; ++r) {
    int32_t sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += int32_t{w[r * cols + c]} * x[c];
    y[r] = sum;
  }
}

void dense_matvec_simd(const int8_t* w, int64_t rows, int64_t cols, const int8_t* x, int32_t* y) {
  HWY_DYNAMIC_DISPATCH(Dense)(w, rows, cols, x, y);
}

uint64_t read_all_simd(const uint8_t* data, int64_t bytes, int method) {
  return HWY_DYNAMIC_DISPATCH(ReadAll)(data, bytes, method);
}

}  // namespace ecmv::backends::cpu
#endif  // HWY_ONCE
