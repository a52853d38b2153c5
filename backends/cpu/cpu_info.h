// Facts about the machine's CPU: model name, cache sizes, memory.
#pragma once

#include <filesystem>

#include "backends/kernel.h"

namespace ecmv::backends::cpu {

// Fills in name, caches and memory; unknown sizes are 0. Reads /proc and /sys only.
DeviceInfo describe_cpu();

// How many cores the process's affinity allows (taskset, cpusets); 0: unknown.
int affinity_cores();
// The smallest quota, in cores, of the process's control group and all groups around it (cgroup v2 cpu.max, v1
// cpu.cfs_quota_us); 0: no quota. `root` holds /proc and /sys.
double cpu_quota_cores(const std::filesystem::path& root = "/");
// How many of these threads the quota can run at once, at least one; all of them without a quota (0).
int threads_within(double quota_cores, int threads);

}  // namespace ecmv::backends::cpu
