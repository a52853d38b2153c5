// SIMD kernels of raw_bf16: the dense product, widened in registers, tuned for streaming from DRAM. A tuning is rows at once x prefetch
// distance, as in raw_int8.
#include <cstring>

#include "backends/kernel.h"
#include "codecs/raw_bf16/format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/raw_bf16/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/dense_matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::raw_bf16::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;

void Matmul(const backends::KernelCall& call) {
  const auto [all_rows, cols] = call.matrix->shape;
  const int64_t rows = call.row_end - call.row_begin;
  const uint16_t* w = reinterpret_cast<const uint16_t*>(call.matrix->sections[kElements].bytes.data()) + call.row_begin * cols;
  float* y = call.y_tokens + call.row_begin;
  switch (call.tuning) {
    case 0: return cpu::DenseMatmul<cpu::Bf16Elements, 4, 0>(w, rows, cols, call.x_tokens, call.x_stride, call.batch, y, all_rows);
    case 1: return cpu::DenseMatmul<cpu::Bf16Elements, 1, 0>(w, rows, cols, call.x_tokens, call.x_stride, call.batch, y, all_rows);
    case 2: return cpu::DenseMatmul<cpu::Bf16Elements, 1, 16384>(w, rows, cols, call.x_tokens, call.x_stride, call.batch, y, all_rows);
    case 3: return cpu::DenseMatmul<cpu::Bf16Elements, 4, 16384>(w, rows, cols, call.x_tokens, call.x_stride, call.batch, y, all_rows);
  }
}

}  // namespace ecmv::codecs::raw_bf16::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::raw_bf16 {
namespace {

HWY_EXPORT(Matmul);

void decode(const backends::KernelCall& call) {
  const int64_t cols = call.matrix->shape.cols, bytes = 2 * (call.row_end - call.row_begin) * cols;
  if (bytes > 0) std::memcpy(call.decoded, call.matrix->sections[kElements].bytes.data() + 2 * call.row_begin * cols, static_cast<size_t>(bytes));
}

void matmul(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Matmul)(call); }

constexpr backends::Tuning kTunings[] = {{"rows4"}, {"rows1"}, {"rows1_prefetch16k"}, {"rows4_prefetch16k"}};

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "copy", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = decode},
    {.op = backends::Op::matmul, .variant = "rows", .tunings = kTunings, .refuses = backends::refuses_nothing, .launch = matmul},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_bf16
#endif  // HWY_ONCE
