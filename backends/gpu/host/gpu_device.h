// The devices of a GPU backend as backends/backend.h opens them.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// The first usable device whose architecture is request.simd_target ("": any) and whose number is request.index (-1:
// any). Throws std::invalid_argument with the reason where there is none.
std::unique_ptr<Device> open_device(const DeviceRequest& request);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
