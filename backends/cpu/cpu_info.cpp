// Reads Linux's text files instead of using a topology library: records need four numbers and a name.
#include "backends/cpu/cpu_info.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace ecmv::backends::cpu {
namespace {

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

double cpu_quota_cores() {
  // Version 2: "max 100000" or "200000 100000" in the process's group and all above it. The smallest quota applies.
  double least = 0;
  const auto take = [&](double quota, double period) {
    if (quota > 0 && period > 0 && (least == 0 || quota / period < least)) least = quota / period;
  };
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version2 = controllers.empty();
    if (!version2 && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    const std::string root = version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      if (version2) {
        std::ifstream file(root + path + "/cpu.max");
        double quota = 0, period = 0;
        if (file >> quota >> period) take(quota, period);  // "max" is no number
      } else {
        std::ifstream quota_file(root + path + "/cpu.cfs_quota_us"), period_file(root + path + "/cpu.cfs_period_us");
        double quota = 0, period = 0;
        if (quota_file >> quota && period_file >> period) take(quota, period);
      }
      if (path.empty() || path.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

}  // namespace ecmv::backends::cpu
