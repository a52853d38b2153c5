// The portable kernel of raw_f8, a copy: products on CPUs are the harness's, which takes f8 as numbers.
#include <cstring>

#include "backends/kernel.h"
#include "codecs/raw_f8/format.h"

namespace ecmv::codecs::raw_f8 {
namespace {

struct Copy {
  const uint8_t* elements;
  int64_t cols;
  void operator()(void*, const backends::DecodeArgs& args) const {
    if (const int64_t count = args.rows.count() * cols; count > 0)
      std::memcpy(args.out, elements + args.rows.begin * cols, static_cast<size_t>(count));
  }
};

backends::BoundKernel bind_copy(const backends::Policy&, std::span<const backends::Layer> layers, backends::Place&) {
  return Copy{elements_of(*layers[0].matrix), layers[0].matrix->shape.cols};
}

constexpr backends::Kernel kKernels[] = {{.op = backends::Op::decode, .variant = "copy", .bind = bind_copy}};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_f8
