// Portable kernels of raw_int8: a copy and the plain product.
#include <cstring>

#include "backends/cpu/dense_matvec.h"
#include "backends/kernel.h"
#include "codecs/raw_int8/format.h"

namespace ecmv::codecs::raw_int8 {
namespace {

const int8_t* rows_from(const backends::KernelCall& call) {
  return reinterpret_cast<const int8_t*>(call.matrix->sections[kElements].bytes.data()) +
         call.row_begin * call.matrix->shape.cols;
}

void decode(const backends::KernelCall& call) {
  const int64_t bytes = (call.row_end - call.row_begin) * call.matrix->shape.cols;
  if (bytes > 0) std::memcpy(call.decoded, rows_from(call), bytes);
}

void matvec(const backends::KernelCall& call) {
  backends::cpu::dense_matvec_scalar(rows_from(call), call.row_end - call.row_begin, call.matrix->shape.cols, call.x,
                                     call.y + call.row_begin);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "copy", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = decode},
    {.op = backends::Op::matvec, .variant = "rows", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_int8
