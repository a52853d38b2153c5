// The second half of an unfused matmul: float products of tiles that a decode kernel has just written. Elements of any
// type that why_no_float_product (exact_product.h) allows become float32 a few KiB at a time and are multiplied with
// all tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datasets/matrix.h"

namespace ecmv::backends::cpu {

// y[t * y_stride + r] = W x_t for t < batch, r < rows; W [rows, cols] row-major at w, token t at x + t * x_stride,
// padded as MatmulArgs says.
void dense_matmul_scalar(datasets::ElementType type, const std::byte* w, int64_t rows, int64_t cols, const float* x,
                         int64_t x_stride, int batch, float* y, int64_t y_stride);
// Through Highway, on the instruction set chosen at run time.
void dense_matmul_simd(datasets::ElementType type, const std::byte* w, int64_t rows, int64_t cols, const float* x,
                       int64_t x_stride, int batch, float* y, int64_t y_stride);

}  // namespace ecmv::backends::cpu
