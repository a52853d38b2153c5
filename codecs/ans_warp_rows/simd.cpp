// SIMD kernels of ans_warp_rows: the 32 coders of a row in registers, a chunk of 128 columns a step; its symbols come out
// in the order of the columns and go straight into the dot product. A tuning is the number of rows in flight. One row
// is enough where the core looks far enough ahead (Zen 4: 6.2 G elements/s with one row, 5.7 with two).
#include <string>

#include "backends/kernel.h"
#include "codecs/ans_warp_rows/format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/ans_warp_rows/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/dot-inl.h"
#include "codecs/modelling/quad_ans_simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::ans_warp_rows::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;
namespace modelling = codecs::modelling::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

#if ECMV_QUAD_ANS_SIMD

template <int kRows>
HWY_INLINE void MatvecRows(const backends::KernelCall& call, const modelling::QuadStepTables& tables, int64_t row,
                           int64_t ahead, int32_t correction) {
  const cpu::DotD8 d8;
  const cpu::DotD32 d32;
  const int64_t chunks = call.matrix->shape.cols / kChunkCols;
  modelling::QuadQueue queues[kRows];
  modelling::QuadStates states[kRows];
  hn::Vec<cpu::DotD32> sums[kRows];
  for (int k = 0; k < kRows; ++k) {
    queues[k].Begin(*call.matrix, row + k, ahead, states[k]);
    sums[k] = hn::Zero(d32);
  }
  const int8_t* HWY_RESTRICT x = call.x;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (int k = 0; k < kRows; ++k) queues[k].Fill();
    HWY_UNROLL(8)
    for (size_t part = 0; part < modelling::kQuadParts; ++part) {
      const cpu::DotX prepared = cpu::PrepareX(hn::LoadU(d8, x));
      x += hn::Lanes(d8);
      HWY_UNROLL(2)
      for (int k = 0; k < kRows; ++k) sums[k] = cpu::DotAccumulateBiased(queues[k].Step(tables, states[k], part), prepared, sums[k]);
    }
  }
  for (int k = 0; k < kRows; ++k) call.y[row + k] = hn::ReduceSum(d32, sums[k]) - correction;
}

template <int kRows>
HWY_INLINE void MatvecBy(const backends::KernelCall& call) {
  const modelling::QuadStepTables tables = modelling::LoadQuadStepTables(*call.matrix, 0x80);
  const int64_t ahead = modelling::QuadAheadBytes(*call.matrix, layout_of(call.matrix->shape), kRows);
  const int32_t correction = static_cast<int32_t>(128u * static_cast<uint32_t>(cpu::SumX(call.x, call.matrix->shape.cols)));
  int64_t row = call.row_begin;
  for (; row + kRows <= call.row_end; row += kRows) MatvecRows<kRows>(call, tables, row, ahead, correction);
  for (; row < call.row_end; ++row) MatvecRows<1>(call, tables, row, ahead, correction);
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

template <int kRows>
HWY_INLINE void DecodeRows(const backends::KernelCall& call, const modelling::QuadStepTables& tables, int64_t row, int64_t ahead) {
  const modelling::QuadD8 d8;
  const int64_t cols = call.matrix->shape.cols;
  modelling::QuadQueue queues[kRows];
  modelling::QuadStates states[kRows];
  for (int k = 0; k < kRows; ++k) queues[k].Begin(*call.matrix, row + k, ahead, states[k]);
  uint8_t* HWY_RESTRICT out = reinterpret_cast<uint8_t*>(call.decoded) + (row - call.row_begin) * cols;
  for (int64_t chunk = 0; chunk < cols / kChunkCols; ++chunk) {
    for (int k = 0; k < kRows; ++k) queues[k].Fill();
    HWY_UNROLL(8)
    for (size_t part = 0; part < modelling::kQuadParts; ++part) {
      HWY_UNROLL(2)
      for (int k = 0; k < kRows; ++k) hn::StoreU(queues[k].Step(tables, states[k], part), d8, out + k * cols);
      out += hn::Lanes(d8);
    }
  }
}

template <int kRows>
HWY_INLINE void DecodeBy(const backends::KernelCall& call) {
  const modelling::QuadStepTables tables = modelling::LoadQuadStepTables(*call.matrix, 0);
  const int64_t ahead = modelling::QuadAheadBytes(*call.matrix, layout_of(call.matrix->shape), kRows);
  int64_t row = call.row_begin;
  for (; row + kRows <= call.row_end; row += kRows) DecodeRows<kRows>(call, tables, row, ahead);
  for (; row < call.row_end; ++row) DecodeRows<1>(call, tables, row, ahead);
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

}  // namespace ecmv::codecs::ans_warp_rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::ans_warp_rows {
namespace {

HWY_EXPORT(Matvec);
HWY_EXPORT(Decode);
HWY_EXPORT(Refuses);

void matvec(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Matvec)(call); }
void decode(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Decode)(call); }
std::string refuses(const CompressedView&, const backends::DeviceInfo&, int) { return HWY_DYNAMIC_DISPATCH(Refuses)(); }

constexpr backends::Tuning kTunings[] = {{"rows1"}, {"rows2"}};

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "lanes32", .tunings = kTunings, .refuses = refuses, .launch = decode},
    {.op = backends::Op::matvec, .variant = "lanes32", .tunings = kTunings, .refuses = refuses, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::ans_warp_rows
#endif  // HWY_ONCE
