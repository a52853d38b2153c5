// SIMD kernels of ans_warp_rows: the 32 coders of a row stay in registers and decode a chunk of 128 columns a step.
// Symbols come out in the order of the columns and go straight into the dot product. (Two rows in flight are slower on
// Zen 4: 5.7 instead of 6.2 G elements/s.)
#include <string>

#include "codecs/ans_warp_rows/format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/ans_warp_rows/simd.cpp"
#include "codecs/compressed_matrix.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/dot-inl.h"
#include "codecs/modelling/quad_ans/quad_ans_simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::ans_warp_rows::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;
namespace quads = codecs::modelling::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

#if !HWY_HAVE_SCALABLE
struct RowLoops {
  static constexpr int64_t kQueueRows = ans_warp_rows::kQueueRows;

  static HWY_INLINE void Multiply(const modelling::QuadMatrix& matrix, const backends::MatvecArgs& args,
                                  const quads::QuadStepTables& tables, int64_t row, int64_t ahead, int32_t correction) {
    const cpu::DotD8 d8;
    const cpu::DotD32 d32;
    quads::QuadQueue queue;
    quads::QuadStates states;
    queue.Begin(matrix, row, ahead, states);
    auto sums = hn::Zero(d32);
    const int8_t* HWY_RESTRICT x = args.x;
    for (int64_t chunk = 0; chunk < matrix.layout.chunks; ++chunk) {
      queue.Fill();
      HWY_UNROLL(8)
      for (size_t part = 0; part < quads::kQuadParts; ++part) {
        const cpu::DotX prepared = cpu::PrepareX(hn::LoadU(d8, x));
        x += hn::Lanes(d8);
        sums = cpu::DotAccumulateBiased(queue.Step(tables, states, part), prepared, sums);
      }
    }
    args.y[row] = hn::ReduceSum(d32, sums) - correction;
  }

  static HWY_INLINE void Decode(const modelling::QuadMatrix& matrix, const backends::DecodeArgs& args,
                                const quads::QuadStepTables& tables, int64_t row, int64_t ahead) {
    const quads::QuadD8 d8;
    quads::QuadQueue queue;
    quads::QuadStates states;
    queue.Begin(matrix, row, ahead, states);
    uint8_t* HWY_RESTRICT out = reinterpret_cast<uint8_t*>(args.out) + (row - args.rows.begin) * matrix.shape.cols;
    for (int64_t chunk = 0; chunk < matrix.layout.chunks; ++chunk) {
      queue.Fill();
      HWY_UNROLL(8)
      for (size_t part = 0; part < quads::kQuadParts; ++part, out += hn::Lanes(d8))
        hn::StoreU(queue.Step(tables, states, part), d8, out);
    }
  }
};
#else
struct RowLoops {};
#endif

backends::BoundKernel BindDecode(const modelling::QuadMatrix& matrix) {
  return quads::BindQuadDecode<RowLoops>(matrix);
}
backends::BoundKernel BindMatvec(const modelling::QuadMatrix& matrix) {
  return quads::BindQuadMatvec<RowLoops>(matrix);
}
std::string Refuses() { return quads::RefusesQuads(); }

}  // namespace ecmv::codecs::ans_warp_rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::ans_warp_rows {
namespace {

HWY_EXPORT(BindDecode);
HWY_EXPORT(BindMatvec);
HWY_EXPORT(Refuses);

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(modelling::quad_matrix(*layers[0].matrix, layout_of));
}
backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(modelling::quad_matrix(*layers[0].matrix, layout_of));
}
std::string refuses(const CompressedView&, const backends::DeviceInfo&, const backends::Policy&) {
  return HWY_DYNAMIC_DISPATCH(Refuses)();
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "lanes32", .refuses = refuses, .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "lanes32", .refuses = refuses, .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::ans_warp_rows
#endif  // HWY_ONCE
