// What `ecmv doctor` finds: shared by its sources.
#pragma once

#include <string>
#include <vector>

namespace ecmv::experiments {

struct Finding {
  enum class Level { fine, note, warning } level;
  std::string what, found, advice;
};

// Whether a program of this name is on the PATH.
bool on_path(const std::string& program);

// Why a backend for GPUs, "cuda" or "hip", has no device, and the command that brings the next thing which is missing.
// `reason` is what the backend itself says.
Finding missing_gpu(const std::string& backend, const std::string& reason);

}  // namespace ecmv::experiments
