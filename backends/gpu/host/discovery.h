// The functions that each GPU backend defines itself, in backends/{cuda,hip,emulator}.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// All devices in the driver's order; without any, one entry whose `unavailable` says why. Never throws.
std::vector<DeviceInfo> discover();
// Implements discover() from a driver's number of devices: describe(i) for each, or one entry with `why_none`.
template <typename Describe>
std::vector<DeviceInfo> list_devices(const char* backend, int count, Describe describe, const std::string& why_none) {
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) devices.push_back(describe(i));
  if (!devices.empty()) return devices;
  DeviceInfo none;
  none.backend = backend;
  none.unavailable = why_none;
  return {none};
}
// Makes this device the calling thread's current one.
void activate(int index);
// Clocks, power and throttle reasons now.
DeviceState read_state(int index);
// Joules taken since its driver was loaded; 0: unknown. One call of the driver, not all of those of read_state().
double read_joules(int index);
// The link between two devices: "NVLink, 18 links", "PCIe"; "" if unknown.
std::string link_between(int one, int other);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
