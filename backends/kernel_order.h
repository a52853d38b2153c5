// The order in which kernels are taken where nobody names one and nothing is measured: one rule for the library and for
// cases of the variant `auto`.
#pragma once

#include <span>
#include <vector>

#include "backends/pass.h"

namespace ecmv::backends {

// What is to be done with a matrix.
struct WantedKernel {
  Op op = Op::matmul;
  // For a matmul: the tokens, and whether kernels of float32 may get tokens of bf16 as well.
  int batch = 1;
  Activations tokens = Activations::f32;
  bool widens = false;
  const datasets::Scales* scales = nullptr;  // of the matrix, or null
  bool blas = false;                         // multiplies_by_blas()
};

// All kernels of a table that can do it, and for products those that decode, each with all of its policies. The first
// one that does not refuse the matrix is the choice.
//
// Fused kernels that read the tokens' own type come first; among them the first in the table that multiplies all tokens
// at once (Kernel::tokens_at_once), of those the ones that lead with such a matrix (Kernel::leads), or else the one
// that multiplies the most. Decoders come last, but first where a BLAS multiplies what they decode and the best fused
// kernel would read the matrix more than twice. So with more tokens the choice moves on from kernel to kernel and does
// not come back. A kernel's first policy is chosen_policy().
std::vector<ChosenKernel> kernels_in_order(std::span<const Kernel> kernels, const CompressedView& matrix,
                                           const DeviceInfo& device, const WantedKernel& wanted);

// Whether a BLAS multiplies a matrix that was decoded, with any number of tokens. `scaled`: groups of columns have
// scales.
bool multiplies_by_blas(const Executor& executor, const CompressedView& matrix, bool scaled, Activations tokens);
// The same for a device without an executor at hand; false for one that ranks share.
bool multiplies_by_blas(Device& device, const CompressedView& matrix, bool scaled, Activations tokens);

}  // namespace ecmv::backends
