// The energy that the CPU packages took, by RAPL as Linux shows it. Many systems let only root read it.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

namespace ecmv::backends::cpu {

// Joules since the counters last began at zero, all packages together; 0: not readable. They wrap around after minutes
// to hours, so a difference below zero says nothing.
inline double package_joules(const std::filesystem::path& folder = "/sys/class/powercap") {
  double joules = 0;
  for (int package = 0;; ++package) {
    std::ifstream file(folder / ("intel-rapl:" + std::to_string(package)) / "energy_uj");
    double microjoules = 0;
    if (!(file >> microjoules)) return joules;
    joules += 1e-6 * microjoules;
  }
}

}  // namespace ecmv::backends::cpu
