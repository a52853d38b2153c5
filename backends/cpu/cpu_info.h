// What the machine says about its CPU: model name, cache sizes, memory.
#pragma once

#include "backends/kernel.h"

namespace ecmv::backends::cpu {

// name, caches and memory filled in; unknown sizes are 0. Reads /proc and /sys only.
DeviceInfo describe_cpu();

// Cores that the control group's quota is worth (cgroup v2 cpu.max, v1 cpu.cfs_quota_us); 0: no quota.
double cpu_quota_cores();

}  // namespace ecmv::backends::cpu
