// Portable kernels of raw_bf16: a copy and the plain product.
#include <cstring>

#include "backends/cpu/dense_matmul.h"
#include "backends/kernel.h"
#include "codecs/raw_bf16/format.h"

namespace ecmv::codecs::raw_bf16 {
namespace {

const std::byte* rows_from(const backends::KernelCall& call) {
  return call.matrix->sections[kElements].bytes.data() + 2 * call.row_begin * call.matrix->shape.cols;
}

void decode(const backends::KernelCall& call) {
  const int64_t bytes = 2 * (call.row_end - call.row_begin) * call.matrix->shape.cols;
  if (bytes > 0) std::memcpy(call.decoded, rows_from(call), static_cast<size_t>(bytes));
}

void matmul(const backends::KernelCall& call) {
  backends::cpu::dense_matmul_scalar(datasets::ElementType::bf16, rows_from(call), call.row_end - call.row_begin, call.matrix->shape.cols, call.x_tokens, call.x_stride, call.batch,
                                     call.y_tokens + call.row_begin, call.matrix->shape.rows);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "copy", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = decode},
    {.op = backends::Op::matmul, .variant = "rows", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = matmul},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_bf16
