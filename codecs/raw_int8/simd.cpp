// SIMD kernels of raw_int8: the dense product, tuned for streaming from DRAM. A tuning is rows at once x prefetch
// distance; which is best depends on the machine's prefetchers (see README.md).
#include <cstring>

#include "backends/kernel.h"
#include "codecs/raw_int8/format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/raw_int8/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/dense_matvec-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::raw_int8::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;

void Matvec(const backends::KernelCall& call) {
  const int64_t cols = call.matrix->shape.cols, rows = call.row_end - call.row_begin;
  const int8_t* w = reinterpret_cast<const int8_t*>(call.matrix->sections[kElements].bytes.data()) + call.row_begin * cols;
  int32_t* y = call.y + call.row_begin;
  switch (call.tuning) {
    case 0: return cpu::DenseMatvec<4, 0>(w, rows, cols, call.x, y);
    case 1: return cpu::DenseMatvec<1, 0>(w, rows, cols, call.x, y);
    case 2: return cpu::DenseMatvec<1, 8192>(w, rows, cols, call.x, y);
    case 3: return cpu::DenseMatvec<1, 16384>(w, rows, cols, call.x, y);
    case 4: return cpu::DenseMatvec<2, 16384>(w, rows, cols, call.x, y);
    case 5: return cpu::DenseMatvec<4, 16384>(w, rows, cols, call.x, y);
    case 6: return cpu::DenseMatvecStreams<2>(w, rows, cols, call.x, y);
  }
}

}  // namespace ecmv::codecs::raw_int8::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::raw_int8 {
namespace {

HWY_EXPORT(Matvec);

void decode(const backends::KernelCall& call) {
  const int64_t cols = call.matrix->shape.cols, bytes = (call.row_end - call.row_begin) * cols;
  if (bytes > 0) std::memcpy(call.decoded, call.matrix->sections[kElements].bytes.data() + call.row_begin * cols, bytes);
}

void matvec(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Matvec)(call); }

constexpr backends::Tuning kTunings[] = {{"rows4"},          {"rows1"},           {"rows1_prefetch8k"}, {"rows1_prefetch16k"},
                                          {"rows2_prefetch16k"}, {"rows4_prefetch16k"}, {"streams2"}};

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "copy", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = decode},
    {.op = backends::Op::matvec, .variant = "rows", .tunings = kTunings, .refuses = backends::refuses_nothing, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_int8
#endif  // HWY_ONCE
