// Chooses the kernel of a pass of the library.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "backends/pass.h"
#include "codecs/registry.h"

namespace ecmv::library {

struct ChosenPass {
  std::unique_ptr<backends::Pass> pass;
  std::string kernel;  // "simd/matvec/interleaved/rows4", "simd/decode/blocks/default, unfused", "simd/reference"
};

// The first kernel that takes the matrix, in the order of backends/kernel_order.h, then the reference decoder if the
// first device is a CPU. Of several devices fused kernels come before decoders. `plan` lacks only kernel and policy;
// its one layer was uploaded from `matrix`. Throws Failure with the reason of the first kernel that refused.
ChosenPass prepare_first(std::span<const std::shared_ptr<backends::Device>> devices, const codecs::CodecEntry& entry,
                         const backends::CompressedMatrix& matrix, backends::PassPlan plan);

}  // namespace ecmv::library
