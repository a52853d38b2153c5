// Kernels of tans for the backend `simd`: the scalar loop of decode_steps.inc compiled for each instruction set, and
// products of the decoded pieces in vectors. Decoding in vectors would need a prefix sum and two gathers a step,
// because the lanes share one bit stream (NOTES.md).
#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/kernel.h"
#include "codecs/tans/format.h"
#include "codecs/tans/model.h"
#include "codecs/tans/stream.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/tans/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/piece_product-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::tans::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;

#include "codecs/tans/decode_steps.inc"

template <int kLanes, class Symbol>
void Multiply(const Stream& stream, const backends::MatvecArgs& args) {
  const int64_t cols = stream.shape.cols;
  std::fill(args.y + args.rows.begin, args.y + args.rows.end, cpu::kDotIsBiased ? -128 * cpu::SumX(args.x, cols) : 0);
  DecodeBlocks<kLanes, Symbol>(stream, args.rows, args.scratch,
                               [&](int64_t begin, int64_t row, const int8_t* piece, int64_t count) HWY_ATTR {
                                 int32_t* y = args.y + row;
                                 cpu::MultiplyPieces<1>(piece, 0, begin, count, cols, args.x, &y);
                               });
}

backends::BoundKernel BindMatvec(const Stream& stream) {
  return bound<backends::MatvecArgs>(
      stream,
      ForLayout(stream.layout,
                []<int kLanes, class Symbol>() -> Run<backends::MatvecArgs> { return Multiply<kLanes, Symbol>; }),
      kScratchBytes);
}

}  // namespace ecmv::codecs::tans::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::tans {
namespace {

HWY_EXPORT(BindDecode);
HWY_EXPORT(BindMatvec);

using backends::Layers;

backends::BoundKernel bind_decode(const backends::Policy&, Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(stream_of(*layers[0].matrix));
}
backends::BoundKernel bind_matvec(const backends::Policy&, Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(stream_of(*layers[0].matrix));
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "interleaved", .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "interleaved", .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tans
#endif  // HWY_ONCE
