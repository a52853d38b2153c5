// What the machine says about its CPU: model name, cache sizes, memory.
#pragma once

#include "backends/kernel.h"

namespace ecmv::backends::cpu {

// name, caches and memory filled in; unknown sizes are 0. Reads /proc and /sys only.
DeviceInfo describe_cpu();

// Bytes of memory that the system could give out now without swapping; 0: unknown.
int64_t available_memory_bytes();

}  // namespace ecmv::backends::cpu
