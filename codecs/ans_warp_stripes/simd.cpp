// SIMD kernels of ans_warp_stripes: the 32 coders of a stripe stay in registers, a lane a row, and decode four columns
// of all 32 rows a step. All lanes share the four elements of x, and a lane's sum is its row's result. (Two
// stripes in flight are slower on Zen 4: 5.6 instead of 6.2 G elements/s.)
#include <cstring>
#include <string>

#include "codecs/ans_warp_stripes/format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/ans_warp_stripes/simd.cpp"
#include "codecs/compressed_matrix.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/dot-inl.h"
#include "codecs/modelling/quad_ans/quad_ans_simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::ans_warp_stripes::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;
namespace quads = codecs::modelling::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

#if !HWY_HAVE_SCALABLE
struct StripeLoops {
  static constexpr int64_t kQueueRows = kStripeRows;

  static HWY_INLINE void Multiply(const modelling::QuadMatrix& matrix, const backends::MatvecArgs& args,
                                  const quads::QuadStepTables& tables, int64_t row, int64_t ahead, int32_t correction) {
    const cpu::DotD8 d8;
    const cpu::DotD32 d32;
    quads::QuadQueue queue;
    quads::QuadStates states;
    queue.Begin(matrix, row / kStripeRows, ahead, states);
    hn::Vec<cpu::DotD32> sums[quads::kQuadParts];
    for (auto& sum : sums) sum = hn::Zero(d32);
    for (int64_t chunk = 0; chunk < matrix.layout.chunks; ++chunk) {
      int32_t quad;
      std::memcpy(&quad, args.x + chunk * kChunkCols, 4);
      const cpu::DotX prepared = cpu::PrepareX(hn::BitCast(d8, hn::Set(d32, quad)));
      queue.Fill();
      HWY_UNROLL(8)
      for (size_t part = 0; part < quads::kQuadParts; ++part)
        sums[part] = cpu::DotAccumulateBiased(queue.Step(tables, states, part), prepared, sums[part]);
    }
    for (size_t part = 0; part < quads::kQuadParts; ++part)
      hn::StoreU(hn::Sub(sums[part], hn::Set(d32, correction)), d32,
                 args.y + row + static_cast<int64_t>(part * quads::kQuadVectorLanes));
  }

  // Rows are far apart in memory, so kBuffered steps of quads are collected and then written row by row.
  static HWY_INLINE void Decode(const modelling::QuadMatrix& matrix, const backends::DecodeArgs& args,
                                const quads::QuadStepTables& tables, int64_t row, int64_t ahead) {
    constexpr int64_t kBuffered = 16;
    const quads::QuadD8 d8;
    const int64_t cols = matrix.shape.cols, chunks = matrix.layout.chunks;
    std::byte* first_out = args.out + (row - args.rows.begin) * cols;
    alignas(64) uint32_t buffer[kBuffered][kStripeRows];
    quads::QuadQueue queue;
    quads::QuadStates states;
    queue.Begin(matrix, row / kStripeRows, ahead, states);
    for (int64_t first = 0; first < chunks; first += kBuffered) {
      const int64_t count = HWY_MIN(kBuffered, chunks - first);
      for (int64_t i = 0; i < count; ++i) {
        queue.Fill();
        HWY_UNROLL(8)
        for (size_t part = 0; part < quads::kQuadParts; ++part)
          hn::StoreU(queue.Step(tables, states, part), d8,
                     reinterpret_cast<uint8_t*>(buffer[i] + part * quads::kQuadVectorLanes));
      }
      for (int64_t lane = 0; lane < kStripeRows; ++lane) {
        std::byte* out = first_out + lane * cols + first * kChunkCols;
        for (int64_t i = 0; i < count; ++i) std::memcpy(out + i * kChunkCols, &buffer[i][lane], 4);
      }
    }
  }
};
#else
struct StripeLoops {};
#endif

backends::BoundKernel BindDecode(const modelling::QuadMatrix& matrix) {
  return quads::BindQuadDecode<StripeLoops>(matrix);
}
backends::BoundKernel BindMatvec(const modelling::QuadMatrix& matrix) {
  return quads::BindQuadMatvec<StripeLoops>(matrix);
}
std::string Refuses() { return quads::RefusesQuads(); }

}  // namespace ecmv::codecs::ans_warp_stripes::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::ans_warp_stripes {
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

}  // namespace ecmv::codecs::ans_warp_stripes
#endif  // HWY_ONCE
