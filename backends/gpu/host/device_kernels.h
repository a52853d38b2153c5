// The kernels of the backends themselves, as host code starts them.
#pragma once

#include "backends/executor.h"
#include "backends/gpu/products/dense_matrix.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// y and v = W x, and Y = W X of any element type; asynchronous on the stream.
void dense_product(const DenseMatrix& matrix, void* stream, const MatvecArgs& args);
void dense_product(const DenseMatrix& matrix, void* stream, const MatmulArgs& args, int batch);

// y[row] = sums[row] and v[row] = requantise(sums[row]), for products that do not do that themselves; `sums` may be y.
void requantise_rows(const int32_t* sums, int64_t rows, int32_t* y, int8_t* v, float scale, void* stream);

// y[token, row] *= scales[row], or scales[0]; bf16. y is [batch, rows].
void scale_rows(float* y, int64_t rows, int batch, const uint16_t* scales, bool one_for_all, void* stream);

// numbers[i] = element i times the scale of its group: float32 for the dense product.
void scale_elements(const DenseMatrix& matrix, const GroupScales& scales, float* numbers, void* stream);

// firsts[i] is the first of `bytes` bytes that wave i of comparing_waves() finds to differ, or `bytes`. Both places are
// aligned to 16 bytes.
int64_t comparing_waves(const DeviceInfo& device);
void find_differences(const std::byte* one, const std::byte* other, int64_t bytes, int64_t* firsts,
                      const DeviceInfo& device, void* stream);

// Reads `bytes` bytes (a multiple of 16) once and adds the sum of their 32-bit words to *sum. Forms differ in how many
// blocks there are and how much each has in flight; form 0 <= form < kReadForms.
inline constexpr int kReadForms = 4;
void read_all(const std::byte* data, int64_t bytes, uint32_t* sum, int form, const DeviceInfo& device, void* stream);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
