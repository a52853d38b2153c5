// Opens the devices of a GPU backend for backends/backend.h.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// The first usable device whose architecture is request.simd_target ("": any) and whose number is request.index (-1:
// any). Throws std::invalid_argument with the reason if there is none.
std::unique_ptr<Device> open_device(const DeviceRequest& request);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
