// Kernels of tans for the backend `simd`: the scalar loop of decode_steps.inc compiled for each instruction set, and
// the product of the decoded pieces in vectors. The lanes share one bit stream, so vectors would need a prefix sum and
// two gathers a step (README.md).
#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/kernel.h"
#include "codecs/tans/format.h"
#include "codecs/tans/model.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/tans/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/piece_product-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::tans::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;

#include "codecs/tans/decode_steps.inc"

void Decode(const backends::KernelCall& call) { DecodeToMemory(call); }

void Matvec(const backends::KernelCall& call) {
  const int64_t cols = call.matrix->shape.cols;
  std::fill(call.y + call.row_begin, call.y + call.row_end, cpu::kDotIsBiased ? -128 * cpu::SumX(call.x, cols) : 0);
  DecodeCall(call, [&](int64_t begin, int64_t row, const int8_t* piece, int64_t count) HWY_ATTR {
    int32_t* y = call.y + row;
    cpu::MultiplyPieces<1>(piece, 0, begin, count, cols, call.x, &y);
  });
}

int64_t ScratchBytes() { return kTableBytes + kPieceElements + 64; }

}  // namespace ecmv::codecs::tans::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::tans {
namespace {

HWY_EXPORT(Decode);
HWY_EXPORT(Matvec);
HWY_EXPORT(ScratchBytes);

void decode(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Decode)(call); }
void matvec(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Matvec)(call); }

int64_t rows_per_block(const CompressedView& compressed) {
  return layout_of(compressed.shape, *compressed.settings).rows_per_block;
}

int64_t scratch_bytes(const CompressedView&, int) { return HWY_DYNAMIC_DISPATCH(ScratchBytes)(); }

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "interleaved", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing,
     .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = decode},
    {.op = backends::Op::matvec, .variant = "interleaved", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing,
     .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tans
#endif  // HWY_ONCE
