// SIMD kernels of raw_fp32. x is converted to float32 once a call, into the scratch; four accumulators a row hide the
// latency of the additions, and memory limits the rest: 4 bytes an element.
#include "backends/kernel.h"
#include "codecs/raw_fp32/format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/raw_fp32/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::raw_fp32::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Convert {
  const float* elements;
  int64_t cols;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const hn::ScalableTag<float> d;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<int8_t, decltype(d)> d8;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), count = args.rows.count() * cols;
    const float* w = elements + args.rows.begin * cols;
    auto* out = reinterpret_cast<int8_t*>(args.out);
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, hn::LoadU(d, w + i))), d8, out + i);
    for (; i < count; ++i) out[i] = static_cast<int8_t>(w[i]);
  }
};

struct Multiply {
  const float* elements;
  int64_t all_cols;
  void operator()(void*, const backends::MatvecArgs& args) const {
    const hn::ScalableTag<float> d;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<int8_t, decltype(d)> d8;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), cols = all_cols;
    float* x = reinterpret_cast<float*>(args.scratch);
    int64_t c = 0;
    for (; c + lanes <= cols; c += lanes)
      hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, args.x + c))), d, x + c);
    for (; c < cols; ++c) x[c] = args.x[c];

    const float* w = elements + args.rows.begin * cols;
    for (int64_t row = args.rows.begin; row < args.rows.end; ++row, w += cols) {
      auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      for (c = 0; c + 4 * lanes <= cols; c += 4 * lanes) {
        s0 = hn::MulAdd(hn::LoadU(d, w + c), hn::LoadU(d, x + c), s0);
        s1 = hn::MulAdd(hn::LoadU(d, w + c + lanes), hn::LoadU(d, x + c + lanes), s1);
        s2 = hn::MulAdd(hn::LoadU(d, w + c + 2 * lanes), hn::LoadU(d, x + c + 2 * lanes), s2);
        s3 = hn::MulAdd(hn::LoadU(d, w + c + 3 * lanes), hn::LoadU(d, x + c + 3 * lanes), s3);
      }
      float sum = hn::ReduceSum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
      for (; c < cols; ++c) sum += w[c] * x[c];
      args.y[row] = static_cast<int32_t>(sum);
    }
  }
};

backends::BoundKernel BindDecode(const CompressedView& matrix) {
  return Convert{elements_of(matrix), matrix.shape.cols};
}
backends::BoundKernel BindMatvec(const CompressedView& matrix) {
  return {Multiply{elements_of(matrix), matrix.shape.cols},
          {.scratch_bytes = matrix.shape.cols * static_cast<int64_t>(sizeof(float))}};
}

}  // namespace ecmv::codecs::raw_fp32::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::raw_fp32 {
namespace {

HWY_EXPORT(BindDecode);
HWY_EXPORT(BindMatvec);

backends::BoundKernel bind_decode(const backends::Policy&, std::span<const backends::Layer> layers, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(*layers[0].matrix);
}
backends::BoundKernel bind_matvec(const backends::Policy&, std::span<const backends::Layer> layers, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(*layers[0].matrix);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "convert", .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "rows", .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_fp32
#endif  // HWY_ONCE
