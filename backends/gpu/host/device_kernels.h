// Host functions that start the backends' own kernels.
#pragma once

#include "backends/executor.h"
#include "backends/gpu/products/dense_matrix.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// y and v = W x, and Y = W X for any element type; asynchronous on the stream.
void dense_product(const DenseMatrix& matrix, void* stream, const MatvecArgs& args);
void dense_product(const DenseMatrix& matrix, void* stream, const MatmulArgs& args, int batch);

// y[row] = sums[row] and v[row] = requantise(sums[row]), for products that leave it to the backend; `sums` may be y.
void requantise_rows(const int32_t* sums, int64_t rows, int32_t* y, int8_t* v, float scale, void* stream);

// y[token, row] *= scales[row], or scales[0], in bf16. y is [batch, rows].
void scale_rows(float* y, int64_t rows, int batch, const uint16_t* scales, bool one_for_all, void* stream);

// The steps LoadTokens and StoreProducts (executor.h).
void load_tokens(const LoadTokens& step, const DeviceInfo& device, void* stream);
void store_products(const StoreProducts& step, const DeviceInfo& device, void* stream);

// numbers[i] = element i times the scale of its group: float32 for the dense product.
void scale_elements(const DenseMatrix& matrix, const GroupScales& scales, float* numbers, void* stream);

// Wave i of comparing_waves() writes to firsts[i] the first of `bytes` bytes that differs in its part, or `bytes`. Both
// places are aligned to 16 bytes.
int64_t comparing_waves(const DeviceInfo& device);
void find_differences(const std::byte* one, const std::byte* other, int64_t bytes, int64_t* firsts,
                      const DeviceInfo& device, void* stream);

// Reads `bytes` bytes (a multiple of 16) once and adds the sum of their 32-bit words to *sum. Forms, 0 <= form <
// kReadForms, differ in the number of blocks and in how much each has in flight.
inline constexpr int kReadForms = 4;
void read_all(const std::byte* data, int64_t bytes, uint32_t* sum, int form, const DeviceInfo& device, void* stream);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
