// Kernels of GPUs from loaded libraries run in another process first. There they may crash, hang, or leave an error
// after which the device does nothing more for that process; here this would end the run, and all cases after it.
#pragma once

#include <span>

#include "codecs/registry.h"
#include "experiments/check/outcome.h"
#include "experiments/config/case.h"

namespace ecmv::experiments {

// Tries the kernel, if its codec is a loaded one and there is a process for it (device_witness.h), on one layer of each
// shape. `chosen` may be another kernel than the specification's: a step chooses by layer.
Outcome try_loaded_kernel(const KernelSpec& kernel, const backends::ChosenKernel& chosen,
                          const codecs::CodecEntry& entry, std::span<const backends::CompressedMatrix> layers,
                          const backends::DeviceInfo& device, double seconds);

}  // namespace ecmv::experiments
