// Carries out steps on a GPU, in order on a stream of its own. Where the device has graphs, timed steps are captured
// once and replayed as one graph. Seconds are the device's, between two events.
#pragma once

#include <memory>
#include <string>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// `device` outlives the executor; `index` is its number in the backend's list.
std::unique_ptr<Executor> make_executor(const DeviceInfo& device, int index, bool graph);

// Memory of the device for a pass, for Executor::allocate.
std::unique_ptr<Buffer> make_buffer(int64_t bytes, const std::string& what, int index);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
