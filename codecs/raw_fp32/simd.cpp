// SIMD kernels of raw_fp32. x is converted to float32 once a call, into the scratch; four accumulators a row hide the latency of
// the additions, and memory limits the rest: 4 bytes an element.
#include "backends/kernel.h"
#include "codecs/raw_fp32/format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/raw_fp32/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::raw_fp32::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

const float* RowsFrom(const backends::KernelCall& call) {
  return reinterpret_cast<const float*>(call.matrix->sections[kElements].bytes.data()) + call.row_begin * call.matrix->shape.cols;
}

void Decode(const backends::KernelCall& call) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), count = (call.row_end - call.row_begin) * call.matrix->shape.cols;
  const float* w = RowsFrom(call);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, hn::LoadU(d, w + i))), d8, call.decoded + i);
  for (; i < count; ++i) call.decoded[i] = static_cast<int8_t>(w[i]);
}

void Matvec(const backends::KernelCall& call) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), cols = call.matrix->shape.cols;
  float* x = reinterpret_cast<float*>(call.scratch);
  int64_t c = 0;
  for (; c + lanes <= cols; c += lanes) hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, call.x + c))), d, x + c);
  for (; c < cols; ++c) x[c] = call.x[c];

  const float* w = RowsFrom(call);
  for (int64_t row = call.row_begin; row < call.row_end; ++row, w += cols) {
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (c = 0; c + 4 * lanes <= cols; c += 4 * lanes) {
      s0 = hn::MulAdd(hn::LoadU(d, w + c), hn::LoadU(d, x + c), s0);
      s1 = hn::MulAdd(hn::LoadU(d, w + c + lanes), hn::LoadU(d, x + c + lanes), s1);
      s2 = hn::MulAdd(hn::LoadU(d, w + c + 2 * lanes), hn::LoadU(d, x + c + 2 * lanes), s2);
      s3 = hn::MulAdd(hn::LoadU(d, w + c + 3 * lanes), hn::LoadU(d, x + c + 3 * lanes), s3);
    }
    float sum = hn::ReduceSum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
    for (; c < cols; ++c) sum += w[c] * x[c];
    call.y[row] = static_cast<int32_t>(sum);
  }
}

}  // namespace ecmv::codecs::raw_fp32::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::raw_fp32 {
namespace {

HWY_EXPORT(Decode);
HWY_EXPORT(Matvec);

void decode(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Decode)(call); }
void matvec(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Matvec)(call); }
int64_t scratch_bytes(const CompressedView& matrix, int) { return matrix.shape.cols * static_cast<int64_t>(sizeof(float)); }

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "convert", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = decode},
    {.op = backends::Op::matvec, .variant = "rows", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .scratch_bytes = scratch_bytes, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_fp32
#endif  // HWY_ONCE
