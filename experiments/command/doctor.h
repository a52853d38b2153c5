// Findings of `ecmv doctor`: shared by its sources.
#pragma once

#include <string>
#include <vector>

namespace ecmv::experiments {

struct Finding {
  enum class Level { fine, note, warning } level;
  std::string what, found, advice;
};

// Why a GPU backend, "cuda" or "hip", has no device, and what to install. `reason` is the backend's own.
Finding missing_gpu(const std::string& backend, const std::string& reason);
// Whether GPU kernels can be run without a GPU, and how to build what does it. `reason`: why not, or "".
Finding emulator(const std::string& reason);

}  // namespace ecmv::experiments
