// Whether a kernel may begin while the one before it in the stream still runs (LaunchShape::early). Host code.
#pragma once

#include <cstdlib>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// NVIDIA devices since sm_90 have them. Code for older ones waits for nothing.
inline bool have_early_launches(const DeviceInfo& device) {
#if defined(ECMV_GPU_CUDA)
  return device.simd_target.starts_with("sm_") && std::atoi(device.simd_target.c_str() + 3) >= 90;
#else
  (void)device;
  return false;
#endif
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
