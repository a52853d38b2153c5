// SIMD kernels of raw_fp32. A call converts x to float32 once, into the scratch; four accumulators a row hide the
// latency of the additions, and then memory is the limit: 4 bytes an element. Float products go by panels, and by a
// BLAS's sgemm beside them.
#include <cstring>

#include "backends/cpu/products/blas.h"
#include "backends/cpu/products/element_numbers.h"
#include "backends/cpu/products/panel_product.h"
#include "codecs/compressed_matrix.h"
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

// Upper halves.
struct ConvertHalves {
  const float* elements;
  int64_t cols;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const hn::ScalableTag<uint32_t> d;
    const hn::Rebind<uint16_t, decltype(d)> d16;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), count = args.rows.count() * cols;
    const auto* w = reinterpret_cast<const uint32_t*>(elements + args.rows.begin * cols);
    auto* out = reinterpret_cast<uint16_t*>(args.out);
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(hn::LoadU(d, w + i))), d16, out + i);
    for (; i < count; ++i) std::memcpy(out + i, reinterpret_cast<const std::byte*>(w + i) + 2, 2);
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
  if (matrix.type != datasets::ElementType::i8) return ConvertHalves{elements_of(matrix), matrix.shape.cols};
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

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(*layers[0].matrix);
}
backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(*layers[0].matrix);
}

std::string refuses_matvec(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return why_not_int8(matrix);
}

backends::BoundKernel bind_panels(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  return backends::cpu::bind_panels(policy,
                                    {datasets::ElementType::f32, matrix.sections[kElements].bytes.data(),
                                     4 * matrix.shape.cols, matrix.shape.rows, matrix.shape.cols, true},
                                    batch);
}

// bf16 tokens first become float32 in the scratch.
struct Blas {
  const float* elements;
  datasets::Shape shape;
  int threads, batch;
  void operator()(void*, const backends::MatmulArgs& args) const {
    const float* x = args.x;
    if (args.x_bf16 != nullptr) {
      float* const widened = reinterpret_cast<float*>(args.scratch);
      for (int64_t i = 0; i < batch * args.x_stride; ++i) widened[i] = backends::cpu::bf16_number(args.x_bf16[i]);
      x = widened;
    }
    backends::cpu::sgemm({elements + args.rows.begin * shape.cols, args.rows.count(), shape.cols, x, args.x_stride,
                          batch, args.y + args.rows.begin, args.y_stride, threads});
  }
};

std::string refuses_blas(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return backends::cpu::why_no_sgemm(matrix.shape);
}
template <backends::Activations kActivations>
backends::BoundKernel bind_blas(const backends::Policy& policy, backends::Layers layers, int batch,
                                backends::Place& place) {
  const bool own_threads = policy.as<backends::cpu::BlasPolicy>().own_threads;
  const datasets::Shape shape = layers[0].matrix->shape;
  // x_stride is less than 64 numbers more than cols.
  const int64_t widened_bytes = kActivations == backends::Activations::f32 ? 0 : 4 * batch * (shape.cols + 64);
  return {Blas{elements_of(*layers[0].matrix), shape, own_threads ? place.device().threads : 1, batch},
          {.rows_per_block = own_threads ? shape.rows : 1,
           .scratch_bytes = widened_bytes,
           .rounding = backends::cpu::kSgemmRounding}};
}

using enum backends::Activations;
using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "convert", .bind = bind_decode},
    {.op = Op::matvec, .variant = "rows", .refuses = refuses_matvec, .bind = bind_matvec},
    {.op = Op::matmul, .variant = "panels", .policies = backends::cpu::kFloatPanels, .bind = bind_panels},
    {.op = Op::matmul,
     .variant = "panels",
     .policies = backends::cpu::kFloatPanels,
     .activations = bf16,
     .bind = bind_panels},
    {.op = Op::matmul,
     .variant = "blas",
     .policies = backends::cpu::kBlasPolicies,
     .refuses = refuses_blas,
     .bind = bind_blas<f32>},
    {.op = Op::matmul,
     .variant = "blas",
     .policies = backends::cpu::kBlasPolicies,
     .activations = bf16,
     .refuses = refuses_blas,
     .bind = bind_blas<bf16>},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_fp32
#endif  // HWY_ONCE
