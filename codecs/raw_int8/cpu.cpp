// Portable kernels of raw_int8: a copy and the plain product.
#include <cstring>

#include "backends/cpu/dense_matvec.h"
#include "backends/kernel.h"
#include "codecs/raw_int8/format.h"

namespace ecmv::codecs::raw_int8 {
namespace {

struct Copy {
  const int8_t* elements;
  int64_t cols;
  void operator()(void*, const backends::DecodeArgs& args) const {
    if (const int64_t bytes = args.rows.count() * cols; bytes > 0)
      std::memcpy(args.out, elements + args.rows.begin * cols, static_cast<size_t>(bytes));
  }
};

struct Multiply {
  const int8_t* elements;
  int64_t cols;
  void operator()(void*, const backends::MatvecArgs& args) const {
    backends::cpu::dense_matvec_scalar(elements + args.rows.begin * cols, args.rows.count(), cols, args.x,
                                       args.y + args.rows.begin);
  }
};

template <typename Body>
backends::BoundKernel bind(const backends::Policy&, std::span<const backends::Layer> layers, backends::Place&) {
  return Body{elements_of(*layers[0].matrix), layers[0].matrix->shape.cols};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "copy", .bind = bind<Copy>},
    {.op = backends::Op::matvec, .variant = "rows", .bind = bind<Multiply>},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_int8
