// Float products by a BLAS library of the system, the yardstick that everybody knows: OpenBLAS, BLIS or MKL. It is
// opened at run time, so nothing is compiled or linked against it; kernels refuse where there is none. ECMV_BLAS names
// another file. A library without a call that sets its number of threads is not used: it is the plain reference BLAS,
// which is no yardstick.
#pragma once

#include <cstdint>
#include <string>

#include "backends/kernel.h"

namespace ecmv::backends::cpu {

// The row-major product Y = W X of rows [0, rows) of w for `batch` tokens. Threads may call at once.
template <typename Number>
struct BlasProduct {
  const Number* w = nullptr;  // [rows, cols]
  int64_t rows = 0, cols = 0;
  const Number* x = nullptr;  // token t at x + t * x_stride
  int64_t x_stride = 0;
  int batch = 0;
  float* y = nullptr;  // y[t * y_stride + row]
  int64_t y_stride = 0;
  int threads = 1;  // that the library uses
};

// Who splits the work.
struct BlasPolicy : Policy {
  bool own_threads;  // true: the library splits the work over its threads; else every thread calls it for its rows
};
inline constexpr BlasPolicy kBlasPolicies[] = {{{"gemm_rows"}, false}, {{"gemm_threads"}, true}};

// "" if the library has this product for matrices of that shape, else the reason as a sentence.
std::string why_no_sgemm(datasets::Shape shape);
std::string why_no_sbgemm(datasets::Shape shape);

// sgemm works in float32 throughout; sbgemm multiplies bf16 and sums in float32.
void sgemm(const BlasProduct<float>& product);
void sbgemm(const BlasProduct<uint16_t>& product);

// A BLAS adds the products in an order of its own, with each sum in float32 and rounded to nearest, as ProductRounding
// assumes of every kernel. Scaling a sum by 1 and adding 0 times the old value change nothing. The instructions for
// bf16 take small numbers as zero.
inline constexpr ProductRounding kSgemmRounding = {};
inline constexpr ProductRounding kSbgemmRounding = {.flushes_subnormals = true};

}  // namespace ecmv::backends::cpu
