// A matmul of more tokens than its kernel multiplies at a time: in parts, one after the other. Each part reads the
// whole matrix again.
#pragma once

#include "backends/kernel.h"

namespace ecmv::backends {

// `whole` multiplies `most` tokens and `rest` those that are left of `batch`; without any left it is not called. Both
// outlive the result. They share its scratch.
BoundKernel in_parts(const BoundKernel& whole, const BoundKernel& rest, int most, int batch);

}  // namespace ecmv::backends
