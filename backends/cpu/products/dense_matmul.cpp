// Dynamic dispatch around dense_matmul-inl.h, and the portable form.
#include "backends/cpu/products/dense_matmul.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/dense_matmul.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/dense_matmul-inl.h"
#include "backends/cpu/products/element_numbers.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::backends::cpu::HWY_NAMESPACE {

// Four rows of 2048 columns are converted at a time: 32 KiB.
void Dense(datasets::ElementType type, const std::byte* w, int64_t rows, int64_t cols, const float* x, int64_t x_stride,
           int batch, float* y, int64_t y_stride) {
  constexpr int64_t kRows = 4, kColumns = 2048;
  HWY_ALIGN float floats[kRows * kColumns];
  const int64_t bytes = datasets::element_bytes(type);
  int64_t begin = 0;
  do {
    const int64_t count = HWY_MIN(kColumns, cols - begin);
    for (int64_t row = 0; row < rows; row += kRows) {
      const int64_t group = HWY_MIN(kRows, rows - row);
      for (int64_t r = 0; r < group; ++r) {
        elements_to_floats(type, w + ((row + r) * cols + begin) * bytes, count, floats + r * kColumns);
        for (int64_t c = count; c % static_cast<int64_t>(hn::Lanes(FloatD())) != 0; ++c) floats[r * kColumns + c] = 0;
      }
      if (group == kRows)
        MatmulRows<FloatElements, kRows, 0>(floats, kColumns, count, x + begin, x_stride, batch,
                                            {y + row, y_stride, begin > 0});
      else
        for (int64_t r = 0; r < group; ++r)
          MatmulRows<FloatElements, 1, 0>(floats + r * kColumns, kColumns, count, x + begin, x_stride, batch,
                                          {y + row + r, y_stride, begin > 0});
    }
    begin += kColumns;
  } while (begin < cols);
}

}  // namespace ecmv::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::backends::cpu {

HWY_EXPORT(Dense);

void dense_matmul_simd(datasets::ElementType type, const std::byte* w, int64_t rows, int64_t cols, const float* x,
                       int64_t x_stride, int batch, float* y, int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(Dense)(type, w, rows, cols, x, x_stride, batch, y, y_stride);
}

void dense_matmul_scalar(datasets::ElementType type, const std::byte* w, int64_t rows, int64_t cols, const float* x,
                         int64_t x_stride, int batch, float* y, int64_t y_stride) {
  constexpr int64_t kColumns = 2048, kSums = 8;
  float row[kColumns];
  const int64_t bytes = datasets::element_bytes(type);
  for (int64_t r = 0; r < rows; ++r) {
    for (int t = 0; t < batch; ++t) y[t * y_stride + r] = 0;
    for (int64_t begin = 0; begin < cols; begin += kColumns) {
      const int64_t count = std::min(kColumns, cols - begin);
      elements_to_floats(type, w + (r * cols + begin) * bytes, count, row);
      for (int t = 0; t < batch; ++t) {
        const float* token = x + t * x_stride + begin;
        // Eight sums, so that additions do not wait for each other.
        float sums[kSums] = {};
        int64_t c = 0;
        for (; c + kSums <= count; c += kSums)
          for (int64_t k = 0; k < kSums; ++k) sums[k] += row[c + k] * token[c + k];
        for (; c < count; ++c) sums[0] += row[c] * token[c];
        float sum = 0;
        for (float part : sums) sum += part;
        y[t * y_stride + r] += sum;
      }
    }
  }
}

}  // namespace ecmv::backends::cpu
#endif  // HWY_ONCE
