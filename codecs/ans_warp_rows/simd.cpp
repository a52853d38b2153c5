// SIMD kernels of ans_warp_rows: the 32 coders of a row stay in registers and decode a chunk of 128 columns a step.
// Symbols come out in the order of the columns and go straight into the dot product. A policy is the number of rows in
// flight. One row is enough where the core looks far enough ahead (Zen 4: 6.2 G elements/s with one row, 5.7 with two).
#include <string>

#include "codecs/ans_warp_rows/format.h"
#include "codecs/ans_warp_rows/policies.h"

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

  template <int kRows>
  static HWY_INLINE void Multiply(const modelling::QuadMatrix& matrix, const backends::MatvecArgs& args,
                                  const quads::QuadStepTables& tables, int64_t row, int64_t ahead, int32_t correction) {
    const cpu::DotD8 d8;
    const cpu::DotD32 d32;
    const int64_t chunks = matrix.layout.chunks;
    quads::QuadQueue queues[kRows];
    quads::QuadStates states[kRows];
    hn::Vec<cpu::DotD32> sums[kRows];
    for (int k = 0; k < kRows; ++k) {
      queues[k].Begin(matrix, row + k, ahead, states[k]);
      sums[k] = hn::Zero(d32);
    }
    const int8_t* HWY_RESTRICT x = args.x;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (int k = 0; k < kRows; ++k) queues[k].Fill();
      HWY_UNROLL(8)
      for (size_t part = 0; part < quads::kQuadParts; ++part) {
        const cpu::DotX prepared = cpu::PrepareX(hn::LoadU(d8, x));
        x += hn::Lanes(d8);
        HWY_UNROLL(2)
        for (int k = 0; k < kRows; ++k)
          sums[k] = cpu::DotAccumulateBiased(queues[k].Step(tables, states[k], part), prepared, sums[k]);
      }
    }
    for (int k = 0; k < kRows; ++k) args.y[row + k] = hn::ReduceSum(d32, sums[k]) - correction;
  }

  template <int kRows>
  static HWY_INLINE void Decode(const modelling::QuadMatrix& matrix, const backends::DecodeArgs& args,
                                const quads::QuadStepTables& tables, int64_t row, int64_t ahead) {
    const quads::QuadD8 d8;
    const int64_t cols = matrix.shape.cols, chunks = matrix.layout.chunks;
    quads::QuadQueue queues[kRows];
    quads::QuadStates states[kRows];
    for (int k = 0; k < kRows; ++k) queues[k].Begin(matrix, row + k, ahead, states[k]);
    uint8_t* HWY_RESTRICT out = reinterpret_cast<uint8_t*>(args.out) + (row - args.rows.begin) * cols;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (int k = 0; k < kRows; ++k) queues[k].Fill();
      HWY_UNROLL(8)
      for (size_t part = 0; part < quads::kQuadParts; ++part) {
        HWY_UNROLL(2)
        for (int k = 0; k < kRows; ++k) hn::StoreU(queues[k].Step(tables, states[k], part), d8, out + k * cols);
        out += hn::Lanes(d8);
      }
    }
  }
};
#else
struct RowLoops {};
#endif

backends::BoundKernel BindDecode(const backends::Policy& policy, const modelling::QuadMatrix& matrix) {
  return quads::BindQuads<backends::DecodeArgs, RowLoops, kPolicies>(policy, matrix);
}
backends::BoundKernel BindMatvec(const backends::Policy& policy, const modelling::QuadMatrix& matrix) {
  return quads::BindQuads<backends::MatvecArgs, RowLoops, kPolicies>(policy, matrix);
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

backends::BoundKernel bind_decode(const backends::Policy& policy, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(policy, modelling::quad_matrix(*layers[0].matrix, layout_of));
}
backends::BoundKernel bind_matvec(const backends::Policy& policy, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(policy, modelling::quad_matrix(*layers[0].matrix, layout_of));
}
std::string refuses(const CompressedView&, const backends::DeviceInfo&, const backends::Policy&) {
  return HWY_DYNAMIC_DISPATCH(Refuses)();
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "lanes32", .policies = kPolicies, .refuses = refuses, .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "lanes32", .policies = kPolicies, .refuses = refuses, .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::ans_warp_rows
#endif  // HWY_ONCE
