// Float products by a BLAS library of the system, the yardstick that everybody knows: OpenBLAS, BLIS or MKL. It is
// opened at run time, so nothing is compiled or linked against it; kernels refuse where there is none. ECMV_BLAS names
// another file. A library whose number of threads nobody can set is not used: that is the plain one, which is no
// yardstick.
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
  int threads = 1;  // of the library
};

// Who splits the work.
struct BlasPolicy : Policy {
  bool own_threads;  // the library, over its own threads; otherwise every thread calls it for its rows
};
inline constexpr BlasPolicy kBlasPolicies[] = {{{"gemm_rows"}, false}, {{"gemm_threads"}, true}};

// "" if the library has such a product of matrices of that shape, else why not, as a sentence.
std::string why_no_sgemm(datasets::Shape shape);
std::string why_no_sbgemm(datasets::Shape shape);

// sgemm: float32 throughout. sbgemm: factors of bf16, sums of float32.
void sgemm(const BlasProduct<float>& product);
void sbgemm(const BlasProduct<uint16_t>& product);

// A BLAS adds the products in an order of its own, each sum in float32 and rounded to nearest: what is assumed of every
// kernel. 1 times a sum and 0 times what was there add nothing. With instructions for bf16, small numbers count as
// zero.
inline constexpr ProductRounding kSgemmRounding = {};
inline constexpr ProductRounding kSbgemmRounding = {.flushes_subnormals = true};

}  // namespace ecmv::backends::cpu
