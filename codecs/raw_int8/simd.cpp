// SIMD kernels of raw_int8: the dense product, tuned for streaming from DRAM. Policies differ in rows at once and
// prefetch distance; the best one depends on the machine's prefetchers (see README.md).
#include "codecs/modelling/plain_cpu.h"
#include "codecs/raw_int8/policies.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/raw_int8/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/dense_matvec-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::raw_int8::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;

using Product = void (*)(const int8_t* w, int64_t rows, int64_t cols, const int8_t* x, int32_t* y);

struct Multiply {
  const int8_t* elements;
  int64_t cols;
  Product product;
  void operator()(void*, const backends::MatvecArgs& args) const {
    product(elements + args.rows.begin * cols, args.rows.count(), cols, args.x, args.y + args.rows.begin);
  }
};

backends::BoundKernel BindMatvec(const backends::Policy& policy, const CompressedView& matrix) {
  const Product product = backends::with_policy<kProductPolicies>(policy, [](auto i) -> Product {
    constexpr backends::cpu::RowsPolicy kPolicy = kProductPolicies[i];
    if constexpr (kPolicy.streams > 1)
      return cpu::DenseMatvecStreams<kPolicy.streams>;
    else
      return cpu::DenseMatvec<kPolicy.rows, kPolicy.prefetch_bytes>;
  });
  return Multiply{modelling::plain_elements<int8_t>(matrix), matrix.shape.cols, product};
}

}  // namespace ecmv::codecs::raw_int8::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::raw_int8 {
namespace {

HWY_EXPORT(BindMatvec);

backends::BoundKernel bind_matvec(const backends::Policy& policy, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(policy, *layers[0].matrix);
}

constexpr backends::Kernel kKernels[] = {
    modelling::kPlainCopy,
    {.op = backends::Op::matvec, .variant = "rows", .policies = kProductPolicies, .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_int8
#endif  // HWY_ONCE
