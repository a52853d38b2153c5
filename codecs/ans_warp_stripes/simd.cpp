// SIMD kernels of ans_warp_stripes: the 32 coders of a stripe in registers, a lane a row, four columns of all 32 rows a step. The
// four elements of x are the same for all lanes, and a lane's sum is its row's result. A tuning is the number of stripes in
// flight; one is enough where the core looks far enough ahead (Zen 4: 6.2 G elements/s with one stripe, 5.6 with two).
#include <string>

#include "backends/kernel.h"
#include "codecs/ans_warp_stripes/format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/ans_warp_stripes/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/dot-inl.h"
#include "codecs/modelling/quad_ans_simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::ans_warp_stripes::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;
namespace modelling = codecs::modelling::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

#if ECMV_QUAD_ANS_SIMD

template <int kStripes>
HWY_INLINE void MatvecStripes(const backends::KernelCall& call, const modelling::QuadStepTables& tables, int64_t row,
                              int64_t ahead, int32_t correction) {
  const cpu::DotD8 d8;
  const cpu::DotD32 d32;
  const int64_t chunks = call.matrix->shape.cols / kChunkCols;
  modelling::QuadQueue queues[kStripes];
  modelling::QuadStates states[kStripes];
  hn::Vec<cpu::DotD32> sums[kStripes][modelling::kQuadParts];
  for (int k = 0; k < kStripes; ++k) {
    queues[k].Begin(*call.matrix, row / kStripeRows + k, ahead, states[k]);
    for (auto& sum : sums[k]) sum = hn::Zero(d32);
  }
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    int32_t quad;
    std::memcpy(&quad, call.x + chunk * kChunkCols, 4);
    const cpu::DotX prepared = cpu::PrepareX(hn::BitCast(d8, hn::Set(d32, quad)));
    for (int k = 0; k < kStripes; ++k) queues[k].Fill();
    HWY_UNROLL(8)
    for (size_t part = 0; part < modelling::kQuadParts; ++part) {
      HWY_UNROLL(2)
      for (int k = 0; k < kStripes; ++k)
        sums[k][part] = cpu::DotAccumulateBiased(queues[k].Step(tables, states[k], part), prepared, sums[k][part]);
    }
  }
  for (int k = 0; k < kStripes; ++k)
    for (size_t part = 0; part < modelling::kQuadParts; ++part)
      hn::StoreU(hn::Sub(sums[k][part], hn::Set(d32, correction)), d32,
                 call.y + row + k * kStripeRows + static_cast<int64_t>(part * modelling::kQuadVectorLanes));
}

template <int kStripes>
HWY_INLINE void MatvecBy(const backends::KernelCall& call) {
  const modelling::QuadStepTables tables = modelling::LoadQuadStepTables(*call.matrix, 0x80);
  const int64_t ahead = modelling::QuadAheadBytes(*call.matrix, layout_of(call.matrix->shape), kStripes);
  const int32_t correction = static_cast<int32_t>(128u * static_cast<uint32_t>(cpu::SumX(call.x, call.matrix->shape.cols)));
  int64_t row = call.row_begin;
  for (; row + kStripes * kStripeRows <= call.row_end; row += kStripes * kStripeRows)
    MatvecStripes<kStripes>(call, tables, row, ahead, correction);
  for (; row < call.row_end; row += kStripeRows) MatvecStripes<1>(call, tables, row, ahead, correction);
}

void Matvec(const backends::KernelCall& call) {
  if (call.matrix->shape.elements() == 0) {
    for (int64_t row = call.row_begin; row < call.row_end; ++row) call.y[row] = 0;
    return;
  }
  switch (call.tuning) {
    case 0: return MatvecBy<1>(call);
    case 1: return MatvecBy<2>(call);
  }
}

// Rows are far apart, so the quads of kBuffered steps are collected before they are written row by row.
template <int kStripes>
HWY_INLINE void DecodeStripes(const backends::KernelCall& call, const modelling::QuadStepTables& tables, int64_t row, int64_t ahead) {
  constexpr int64_t kBuffered = 16;
  const modelling::QuadD8 d8;
  const int64_t cols = call.matrix->shape.cols, chunks = cols / kChunkCols;
  alignas(64) uint32_t buffer[kStripes][kBuffered][kStripeRows];
  modelling::QuadQueue queues[kStripes];
  modelling::QuadStates states[kStripes];
  for (int k = 0; k < kStripes; ++k) queues[k].Begin(*call.matrix, row / kStripeRows + k, ahead, states[k]);
  for (int64_t first = 0; first < chunks; first += kBuffered) {
    const int64_t count = HWY_MIN(kBuffered, chunks - first);
    for (int64_t i = 0; i < count; ++i) {
      for (int k = 0; k < kStripes; ++k) queues[k].Fill();
      HWY_UNROLL(8)
      for (size_t part = 0; part < modelling::kQuadParts; ++part) {
        HWY_UNROLL(2)
        for (int k = 0; k < kStripes; ++k)
          hn::StoreU(queues[k].Step(tables, states[k], part), d8,
                     reinterpret_cast<uint8_t*>(buffer[k][i] + part * modelling::kQuadVectorLanes));
      }
    }
    for (int k = 0; k < kStripes; ++k)
      for (int64_t lane = 0; lane < kStripeRows; ++lane) {
        int8_t* out = call.decoded + (row - call.row_begin + k * kStripeRows + lane) * cols + first * kChunkCols;
        for (int64_t i = 0; i < count; ++i) std::memcpy(out + i * kChunkCols, &buffer[k][i][lane], 4);
      }
  }
}

template <int kStripes>
HWY_INLINE void DecodeBy(const backends::KernelCall& call) {
  const modelling::QuadStepTables tables = modelling::LoadQuadStepTables(*call.matrix, 0);
  const int64_t ahead = modelling::QuadAheadBytes(*call.matrix, layout_of(call.matrix->shape), kStripes);
  int64_t row = call.row_begin;
  for (; row + kStripes * kStripeRows <= call.row_end; row += kStripes * kStripeRows)
    DecodeStripes<kStripes>(call, tables, row, ahead);
  for (; row < call.row_end; row += kStripeRows) DecodeStripes<1>(call, tables, row, ahead);
}

void Decode(const backends::KernelCall& call) {
  if (call.matrix->shape.elements() == 0) return;
  switch (call.tuning) {
    case 0: return DecodeBy<1>(call);
    case 1: return DecodeBy<2>(call);
  }
}

std::string Refuses() { return ""; }

#else

void Matvec(const backends::KernelCall&) {}
void Decode(const backends::KernelCall&) {}
std::string Refuses() { return "The kernel keeps arrays of vectors, which scalable vectors do not allow; NEON runs it."; }

#endif  // ECMV_QUAD_ANS_SIMD

}  // namespace ecmv::codecs::ans_warp_stripes::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::ans_warp_stripes {
namespace {

HWY_EXPORT(Matvec);
HWY_EXPORT(Decode);
HWY_EXPORT(Refuses);

int64_t rows_per_block(const CompressedView&) { return kStripeRows; }
void matvec(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Matvec)(call); }
void decode(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Decode)(call); }
std::string refuses(const CompressedView&, const backends::DeviceInfo&, int) { return HWY_DYNAMIC_DISPATCH(Refuses)(); }

constexpr backends::Tuning kTunings[] = {{"stripes1"}, {"stripes2"}};

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "lanes32", .tunings = kTunings, .refuses = refuses, .rows_per_block = rows_per_block, .launch = decode},
    {.op = backends::Op::matvec, .variant = "lanes32", .tunings = kTunings, .refuses = refuses, .rows_per_block = rows_per_block, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::ans_warp_stripes
#endif  // HWY_ONCE
