// The functions that each GPU backend defines itself, in backends/{cuda,hip,emulator}.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "backends/gpu/gpu_api.h"
#include "backends/gpu/visible_devices.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// All devices in the driver's order; without any, one entry whose `unavailable` says why. Never throws.
std::vector<DeviceInfo> discover();
// Implements discover() from a driver's number of devices: describe(i) for each, and an entry that cannot be used where
// there are none, or fewer than one of these variables of the environment lists.
template <typename Describe>
std::vector<DeviceInfo> list_devices(const char* backend, int count, Describe describe, const std::string& why_none,
                                     std::initializer_list<const char*> variables) {
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) devices.push_back(describe(i));
  const std::string why_fewer = why_fewer_devices(variables, count);
  if (!devices.empty() && why_fewer.empty()) return devices;
  DeviceInfo none;
  none.backend = backend;
  none.unavailable = count > 0 ? why_fewer : why_fewer.empty() ? why_none : why_none + " " + why_fewer;
  devices.push_back(none);
  return devices;
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
