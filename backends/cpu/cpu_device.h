// The two CPU backends. They share memory, threads and clock, and differ in the kernels that the registry gives them
// (cpu.cpp or simd.cpp of a codec) and in the dense product of unfused kernels.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace ecmv::backends::cpu {

std::vector<DeviceInfo> scalar_devices();
std::unique_ptr<Device> open_scalar(const DeviceRequest& request);

// One entry for each instruction set that this binary holds code for; unavailable where this CPU lacks it.
std::vector<DeviceInfo> simd_devices();
// Several `simd` devices may be open at once; each pass chooses the instruction set of its device anew.
std::unique_ptr<Device> open_simd(const DeviceRequest& request);

}  // namespace ecmv::backends::cpu
