// What each GPU backend says for itself, in backends/{cuda,hip,emulator}.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// All devices in the driver's order; without any, one entry whose `unavailable` says why. Never throws.
std::vector<DeviceInfo> discover();
// Makes the device with this number the calling thread's.
void activate(int index);
// Clocks, power and throttle reasons now.
DeviceState read_state(int index);
// What links two devices: "NVLink, 18 links", "PCIe"; "" where nothing tells.
std::string link_between(int one, int other);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
