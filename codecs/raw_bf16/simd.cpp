// SIMD kernels of raw_bf16: the dense product, widened in registers, tuned for streaming from DRAM. A policy is rows at
// once x prefetch distance, as in raw_int8.
#include "codecs/raw_bf16/copy.h"
#include "codecs/raw_bf16/policies.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/raw_bf16/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/dense_matmul-inl.h"
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
  void operator()(void*, const backends::MatmulArgs& args) const {
    product(elements + args.rows.begin * cols, args.rows.count(), cols, args.x, args.x_stride, args.batch,
            args.y + args.rows.begin, args.y_stride);
  }
};

backends::BoundKernel BindMatmul(const backends::Policy& policy, const CompressedView& matrix) {
  const Product product = backends::with_policy<kProductPolicies>(policy, [](auto i) -> Product {
    constexpr ProductPolicy kPolicy = kProductPolicies[i];
    return cpu::DenseMatmul<cpu::Bf16Elements, kPolicy.rows, kPolicy.prefetch_bytes>;
  });
  return Multiply{elements_of(matrix), matrix.shape.cols, product};
}

}  // namespace ecmv::codecs::raw_bf16::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::raw_bf16 {
namespace {

HWY_EXPORT(BindMatmul);

backends::BoundKernel bind_matmul(const backends::Policy& policy, std::span<const backends::Layer> layers,
                                  backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatmul)(policy, *layers[0].matrix);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "copy", .bind = bind_copy},
    {.op = backends::Op::matmul, .variant = "rows", .policies = kProductPolicies, .bind = bind_matmul},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_bf16
#endif  // HWY_ONCE
