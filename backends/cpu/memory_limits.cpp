// See memory_limits.h. Reads Linux's text files.
#include "backends/cpu/memory_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace ecmv::backends::cpu {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

// The number at the start of a text; kNone if there is none ("max") or it does not fit.
int64_t number_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && value >= 0 ? value : kNone;
}

// The number in a file, or the one after this key and blanks.
int64_t number_in(const fs::path& path, std::string_view key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t begin = line.find_first_not_of(" \t", key.size());
    return begin == std::string::npos ? kNone : number_of(std::string_view(line).substr(begin));
  }
  return kNone;
}

struct Version {
  std::string_view limits[2];  // names of files
  std::string_view usage, cache;
};
constexpr Version kV1 = {{"memory.limit_in_bytes", ""}, "memory.usage_in_bytes", "total_inactive_file "};
constexpr Version kV2 = {{"memory.max", "memory.high"}, "memory.current", "inactive_file "};

// The memory left below the limits of one group. Unused cached files count as free: the system gives them back when
// memory is wanted.
int64_t left_in(const fs::path& folder, const Version& version) {
  int64_t limit = kNone;
  for (const std::string_view name : version.limits)
    if (!name.empty()) limit = std::min(limit, number_in(folder / name));
  const int64_t usage = number_in(folder / version.usage);
  if (limit == kNone || usage == kNone) return kNone;
  const int64_t cache = number_in(folder / "memory.stat", version.cache);
  return std::max<int64_t>(0, limit - std::max<int64_t>(0, usage - (cache == kNone ? 0 : cache)));
}

// The memory that the group and all groups around it leave. In a container the path may be the host's; then only its
// last step exists.
int64_t left_in_groups(const fs::path& mount, fs::path group, const Version& version) {
  int64_t left = kNone;
  for (group = group.relative_path();; group = group.parent_path()) {
    left = std::min(left, left_in(group.empty() ? mount : mount / group, version));
    if (group.empty()) return left;
  }
}

// Lines are "hierarchy:controllers:path"; lines of v2 have no controllers.
int64_t left_by_control_groups(const fs::path& root) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  int64_t left = kNone;
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 1);
    if (controllers == ",,")
      for (const fs::path& mount : {mounts, mounts / "unified"})
        left = std::min(left, left_in_groups(mount, group, kV2));
    else if (controllers.find(",memory,") != std::string::npos)
      left = std::min(left, left_in_groups(mounts / "memory", group, kV1));
  }
  return left;
}

int64_t left_of_address_space(const fs::path& root) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNone;
  const int64_t pages = number_in(root / "proc/self/statm");
  const int64_t used = pages == kNone ? 0 : pages * sysconf(_SC_PAGESIZE);
  return std::max<int64_t>(0, static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, kNone)) - used);
}

}  // namespace

int64_t available_memory_bytes(const fs::path& root) {
  const int64_t kib = number_in(root / "proc/meminfo", "MemAvailable:");
  const int64_t system = kib == kNone ? kNone : kib * 1024;
  const int64_t left = std::min({system, left_by_control_groups(root), left_of_address_space(root)});
  // 0 would be unknown.
  return left == kNone ? 0 : std::max<int64_t>(1, left);
}

}  // namespace ecmv::backends::cpu
