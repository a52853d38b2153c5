// Steps on a GPU, in order on a stream of their own; what is timed is captured once and replayed as one graph, where
// the device has graphs. Seconds are the device's, between two events.
#pragma once

#include <memory>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// `device` outlives the executor; `index` is its number among the backend's devices.
std::unique_ptr<Executor> make_executor(const DeviceInfo& device, int index, bool graph);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
