// The portable kernel of raw_f8 is a copy. The harness multiplies on CPUs, with f8 as numbers.
#include "codecs/modelling/plain_cpu.h"

namespace ecmv::codecs::raw_f8 {

std::span<const backends::Kernel> cpu_kernels() { return {&modelling::kPlainCopy, 1}; }

}  // namespace ecmv::codecs::raw_f8
