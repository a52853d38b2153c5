// Processes of a test, from /proc.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "tests/run_command.h"

namespace ecmv::tests {

// Child processes of `parent`.
inline std::set<pid_t> children_of(pid_t parent) {
  std::set<pid_t> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string stat = text_of(entry.path() / "stat");
    const size_t end = stat.rfind(')');
    if (end == std::string::npos || std::atoi(stat.c_str() + end + 4) != parent) continue;
    children.insert(std::atoi(stat.c_str()));
  }
  return children;
}

// A zombie does not count as alive.
inline bool lives(pid_t process) {
  const std::string stat = text_of("/proc/" + std::to_string(process) + "/stat");
  const size_t end = stat.rfind(')');
  return end != std::string::npos && stat[end + 2] != 'Z';
}

}  // namespace ecmv::tests
