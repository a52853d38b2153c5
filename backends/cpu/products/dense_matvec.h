// The second half of an unfused product: dense products of tiles that a decode kernel has just written.
#pragma once

#include <cstdint>

namespace ecmv::backends::cpu {

// y[0..rows) = W x, W [rows, cols] int8 row-major, x [cols] padded with kVectorPaddingBytes zeros. Portable C++.
void dense_matvec_scalar(const int8_t* w, int64_t rows, int64_t cols, const int8_t* x, int32_t* y);

// Through Highway, on the instruction set chosen at run time.
void dense_matvec_simd(const int8_t* w, int64_t rows, int64_t cols, const int8_t* x, int32_t* y);

// Reads all bytes once and returns their sum, to measure read bandwidth. Methods differ in streams and prefetching.
inline constexpr int kReadMethods = 4;
uint64_t read_all_simd(const uint8_t* data, int64_t bytes, int method);

}  // namespace ecmv::backends::cpu
