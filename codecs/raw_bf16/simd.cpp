// SIMD kernels of raw_bf16: the dense product, widened in registers and tuned for streaming from DRAM, whose policies
// are rows at once and prefetch distance as in raw_int8; panels for batches; and the bf16 product of a BLAS library.
#include <bit>

#include "backends/cpu/products/blas.h"
#include "backends/cpu/products/panel_product.h"
#include "codecs/modelling/plain_cpu.h"
#include "codecs/raw_bf16/policies.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/raw_bf16/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/dense_matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::raw_bf16::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;

using Product = void (*)(const uint16_t* w, int64_t rows, int64_t cols, const float* x, int64_t x_stride, int batch,
                         float* y, int64_t y_stride);

struct Multiply {
  const uint16_t* elements;
  int64_t cols;
  Product product;
  int batch;
  void operator()(void*, const backends::MatmulArgs& args) const {
    product(elements + args.rows.begin * cols, args.rows.count(), cols, args.x, args.x_stride, batch,
            args.y + args.rows.begin, args.y_stride);
  }
};

// A call widens bf16 tokens into the scratch once.
struct MultiplyHalves {
  const uint16_t* elements;
  int64_t cols;
  Product product;
  int batch;
  static int64_t stride(int64_t cols) { return (cols + 31) / 16 * 16; }  // a vector past the columns may be read
  void operator()(void*, const backends::MatmulArgs& args) const {
    float* const x = reinterpret_cast<float*>(args.scratch);
    for (int t = 0; t < batch; ++t)
      for (int64_t c = 0; c < stride(cols); ++c)
        x[t * stride(cols) + c] =
            std::bit_cast<float>(c < cols ? uint32_t{args.x_bf16[t * args.x_stride + c]} << 16 : 0);
    product(elements + args.rows.begin * cols, args.rows.count(), cols, x, stride(cols), batch,
            args.y + args.rows.begin, args.y_stride);
  }
};

Product ProductOf(const backends::Policy& policy) {
  return backends::with_policy<kProductPolicies>(policy, [](auto i) -> Product {
    constexpr backends::cpu::RowsPolicy kPolicy = kProductPolicies[i];
    return cpu::DenseMatmul<cpu::Bf16Elements, kPolicy.rows, kPolicy.prefetch_bytes>;
  });
}
backends::BoundKernel BindMatmul(const backends::Policy& policy, const CompressedView& matrix, int batch) {
  return Multiply{modelling::plain_elements<uint16_t>(matrix), matrix.shape.cols, ProductOf(policy), batch};
}
backends::BoundKernel BindHalves(const backends::Policy& policy, const CompressedView& matrix, int batch) {
  const int64_t cols = matrix.shape.cols, bytes = MultiplyHalves::stride(cols) * static_cast<int64_t>(sizeof(float));
  return {MultiplyHalves{modelling::plain_elements<uint16_t>(matrix), cols, ProductOf(policy), batch},
          {.scratch_bytes = batch * bytes}};
}

}  // namespace ecmv::codecs::raw_bf16::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::raw_bf16 {
namespace {

HWY_EXPORT(BindMatmul);
HWY_EXPORT(BindHalves);

backends::BoundKernel bind_matmul(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatmul)(policy, *layers[0].matrix, batch);
}

backends::BoundKernel bind_halves(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindHalves)(policy, *layers[0].matrix, batch);
}

backends::BoundKernel bind_panels(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  return backends::cpu::bind_panels(policy,
                                    {matrix.type, modelling::plain_elements<std::byte>(matrix),
                                     modelling::plain_row_bytes(matrix), matrix.shape.rows, matrix.shape.cols, true},
                                    batch);
}
std::string refuses_panels(const CompressedView&, const backends::DeviceInfo&, const backends::Policy& policy) {
  return backends::cpu::why_not(policy.as<backends::cpu::PanelPolicy>().form);
}

struct Blas {
  const uint16_t* elements;
  datasets::Shape shape;
  int threads, batch;
  void operator()(void*, const backends::MatmulArgs& args) const {
    backends::cpu::sbgemm({elements + args.rows.begin * shape.cols, args.rows.count(), shape.cols, args.x_bf16,
                           args.x_stride, batch, args.y + args.rows.begin, args.y_stride, threads});
  }
};

std::string refuses_blas(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return backends::cpu::why_no_sbgemm(matrix.shape);
}
backends::BoundKernel bind_blas(const backends::Policy& policy, backends::Layers layers, int batch,
                                backends::Place& place) {
  const bool own_threads = policy.as<backends::cpu::BlasPolicy>().own_threads;
  const datasets::Shape shape = layers[0].matrix->shape;
  return {Blas{modelling::plain_elements<uint16_t>(*layers[0].matrix), shape, own_threads ? place.device().threads : 1,
               batch},
          {.rows_per_block = own_threads ? shape.rows : 1, .rounding = backends::cpu::kSbgemmRounding}};
}

using backends::Activations, backends::Op;
constexpr backends::Kernel kKernels[] = {
    modelling::kPlainCopy,
    {.op = Op::matmul,
     .variant = "rows",
     .policies = kProductPolicies,
     .tokens_at_once = backends::cpu::kFewTokens,
     .bind = bind_matmul},
    {.op = Op::matmul,
     .variant = "rows",
     .policies = kProductPolicies,
     .activations = Activations::bf16,
     .tokens_at_once = backends::cpu::kFewTokens,
     .bind = bind_halves},
    {.op = Op::matmul,
     .variant = "panels",
     .policies = backends::cpu::kFloatPanels,
     .refuses = refuses_panels,
     .bind = bind_panels},
    {.op = Op::matmul,
     .variant = "panels",
     .policies = backends::cpu::kPanels,
     .activations = Activations::bf16,
     .refuses = refuses_panels,
     .bind = bind_panels,
     .choose = backends::cpu::choose_panels},
    {.op = Op::matmul,
     .variant = "blas",
     .policies = backends::cpu::kBlasPolicies,
     .activations = Activations::bf16,
     .most_tokens = backends::kMostTokens,
     .refuses = refuses_blas,
     .bind = bind_blas},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_bf16
#endif  // HWY_ONCE
