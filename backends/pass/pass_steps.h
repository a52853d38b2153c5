// The steps of a pass, made once from its plan, its memory and the bound kernels. For pass.cpp.
#pragma once

#include <span>
#include <vector>

#include "backends/pass/pass_memory.h"

namespace ecmv::backends {

struct PassSteps {
  std::vector<std::vector<Step>> of_layer;  // one layer by itself
  std::vector<Step> all;                    // a timed run
  std::vector<size_t> first;                // of each layer in `all`; empty where a kernel takes the whole chain
  std::vector<Step> fetch;                  // after `all` and outside the clock: floats to the host
  std::vector<Step> exchange, product;      // the two shares of `all` for ranks
  std::vector<Step> marks[2];               // before a timed run, by round, beside those whose places change
};

// kernels[layer] and `chain`, the kernel of the whole chain if there is one, outlive the steps. The last layer's result
// goes to `host`.
PassSteps make_steps(const PassPlan& plan, const PassMemory& memory, std::span<const BoundKernel> kernels,
                     const BoundKernel& chain, std::span<std::byte> host);

// Bytes of the result that a pass copies to the host; 0 for decode.
int64_t result_bytes(const PassPlan& plan, const PassMemory& memory);

}  // namespace ecmv::backends
