// Portable kernels of raw_bf16: a copy and the plain product.
#include "backends/cpu/products/dense_matmul.h"
#include "codecs/modelling/plain_cpu.h"

namespace ecmv::codecs::raw_bf16 {
namespace {

struct Multiply {
  const uint16_t* elements;
  int64_t cols;
  int batch;
  void operator()(void*, const backends::MatmulArgs& args) const {
    backends::cpu::dense_matmul_scalar(
        datasets::ElementType::bf16, reinterpret_cast<const std::byte*>(elements + args.rows.begin * cols),
        args.rows.count(), cols, args.x, args.x_stride, batch, args.y + args.rows.begin, args.y_stride);
  }
};

backends::BoundKernel bind_matmul(const backends::Policy&, backends::Layers layers, int batch, backends::Place&) {
  return Multiply{modelling::plain_elements<uint16_t>(*layers[0].matrix), layers[0].matrix->shape.cols, batch};
}

constexpr backends::Kernel kKernels[] = {
    modelling::kPlainCopy,
    {.op = backends::Op::matmul, .variant = "rows", .bind = bind_matmul},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_bf16
