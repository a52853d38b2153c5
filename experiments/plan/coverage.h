// The kernels that exist: codec x kernel x instruction set, each with the kernel's own answer on this machine.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codecs/registry.h"

namespace ecmv::experiments {

struct CoverageEntry {
  std::string codec, backend, simd_target, op;
  std::string activations;  // of a matmul
  std::string variant, policy;
  bool unfused = false;  // a product by a decode kernel and the harness's dense product
  std::string status;    // "available", "refused" or "unavailable"
  std::string reason;    // why it is refused or unavailable
};

// Every kernel of every codec on every device that the build knows, available or not. Kernels are asked with a small
// matrix of int8 (of bf16 if the codec takes no int8), encoded with the codec's default settings.
std::vector<CoverageEntry> coverage(std::span<const codecs::CodecEntry> codecs);

}  // namespace ecmv::experiments
