// The kernels of the backends themselves.
#pragma once

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// y and v of `call` = W x, W decoded at `w`; asynchronous on the call's stream.
void dense_product(const int8_t* w, const KernelCall& call);
// y_tokens of `call` = W X, W of the matrix's element type decoded at `w`; asynchronous on the call's stream.
void dense_float_product(const std::byte* w, const KernelCall& call);

// Reads `bytes` bytes (a multiple of 16) once and adds the sum of their 32-bit words to *sum. Forms differ in how many blocks
// there are and how much each has in flight; form 0 <= form < kReadForms.
inline constexpr int kReadForms = 4;
void read_all(const std::byte* data, int64_t bytes, uint32_t* sum, int form, const DeviceInfo& device, void* stream);

// Zeros, and bytes of the host, to device memory in the order of the stream: by launches that carry them as their parameters, so that `host` may
// go at once. Both sizes and addresses are multiples of 16. For little, and not for time that counts.
void fill_on_stream(std::byte* device, int64_t bytes, void* stream);
void store_on_stream(std::byte* device, const void* host, int64_t bytes, void* stream);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
