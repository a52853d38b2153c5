// Reads Linux's text files instead of using a topology library: records need four numbers and a name.
#include "backends/cpu/cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace ecmv::backends::cpu {
namespace {

namespace fs = std::filesystem;

// The value of "key : value" in a /proc file; empty if there is none.
std::string proc_value(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

int64_t proc_kib(const char* path, std::string_view key) {
  const std::string value = proc_value(path, key);
  return value.empty() ? 0 : std::stoll(value) * 1024;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

double ratio(double quota, double period) { return quota > 0 && period > 0 ? quota / period : 0; }

// The quota of one group in cores; 0 without one ("max 100000" in version 2, -1 in version 1).
double quota_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period ? ratio(quota, period) : 0;
}
double quota_v1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  return quota_file >> quota && period_file >> period ? ratio(quota, period) : 0;
}

}  // namespace

DeviceInfo describe_cpu() {
  DeviceInfo info;
  info.name = proc_value("/proc/cpuinfo", "model name");
  if (info.name.empty()) info.name = "unnamed CPU";
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string type = first_line(folder + "type"), level = first_line(folder + "level"),
                      size = first_line(folder + "size");
    if (type.empty() || type == "Instruction" || size.empty()) continue;
    int64_t bytes = std::stoll(size);
    if (size.back() == 'K') bytes <<= 10;
    if (size.back() == 'M') bytes <<= 20;
    if (level == "1") info.l1d_bytes = bytes;
    if (level == "2") info.l2_bytes = bytes;
    if (bytes > info.llc_bytes) info.llc_bytes = bytes;
  }
  // In containers without /sys the C library asks the CPU itself, where it can (x86).
  const auto or_asked = [](int64_t& bytes, int name) {
    if (bytes == 0) bytes = std::max<int64_t>(0, sysconf(name));
  };
  or_asked(info.l1d_bytes, _SC_LEVEL1_DCACHE_SIZE);
  or_asked(info.l2_bytes, _SC_LEVEL2_CACHE_SIZE);
  or_asked(info.llc_bytes, _SC_LEVEL3_CACHE_SIZE);
  if (info.llc_bytes == 0) info.llc_bytes = info.l2_bytes;
  info.memory_bytes = proc_kib("/proc/meminfo", "MemTotal");
  return info;
}

int threads_within(double quota_cores, int threads) {
  return quota_cores > 0 && quota_cores < threads ? std::max(1, static_cast<int>(quota_cores)) : threads;
}

int affinity_cores() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
}

double cpu_quota_cores(const fs::path& root) {
  const fs::path mounts = root / "sys/fs/cgroup";
  double least = 0;
  const auto take = [&](double cores) {
    if (cores > 0 && (least == 0 || cores < least)) least = cores;
  };
  // Lines are "hierarchy:controllers:path"; lines of v2 have no controllers. The quotas of all groups around apply.
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();; group = group.parent_path()) {
      take(v2 ? std::max(quota_v2(mounts / group), quota_v2(mounts / "unified" / group))
              : quota_v1(mounts / "cpu" / group));
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace ecmv::backends::cpu
