// Steps on a GPU, in order on a stream of their own; what is timed is captured once and replayed as one graph, where
// the device has graphs. Seconds are the device's, between two events.
#pragma once

#include <memory>
#include <string>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// `device` outlives the executor; `index` is its number among the backend's devices.
std::unique_ptr<Executor> make_executor(const DeviceInfo& device, int index, bool graph);

// Memory of the device for a pass, as Executor::allocate gives it.
std::unique_ptr<Buffer> make_buffer(int64_t bytes, const std::string& what, int index);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
