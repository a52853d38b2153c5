// Portable kernels of raw_int8: a copy and the plain product.
#include "backends/cpu/products/dense_matvec.h"
#include "codecs/modelling/plain_cpu.h"

namespace ecmv::codecs::raw_int8 {
namespace {

struct Multiply {
  const int8_t* elements;
  int64_t cols;
  void operator()(void*, const backends::MatvecArgs& args) const {
    backends::cpu::dense_matvec_scalar(elements + args.rows.begin * cols, args.rows.count(), cols, args.x,
                                       args.y + args.rows.begin);
  }
};

backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return Multiply{modelling::plain_elements<int8_t>(*layers[0].matrix), layers[0].matrix->shape.cols};
}

constexpr backends::Kernel kKernels[] = {
    modelling::kPlainCopy,
    {.op = backends::Op::matvec, .variant = "rows", .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_int8
