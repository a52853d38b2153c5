// The portable kernel of raw_f8, a copy: products on CPUs are the harness's, which takes f8 as numbers.
#include "backends/cpu/products/copy_rows.h"
#include "codecs/compressed_matrix.h"
#include "codecs/raw_f8/format.h"

namespace ecmv::codecs::raw_f8 {
namespace {

backends::BoundKernel bind_copy(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  return backends::cpu::CopyRows{matrix.sections[kElements].bytes.data(), matrix.shape.cols};
}

constexpr backends::Kernel kKernels[] = {{.op = backends::Op::decode, .variant = "copy", .bind = bind_copy}};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_f8
