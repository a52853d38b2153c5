// Clocks, power, temperature and throttle reasons of an AMD device, from the sysfs files of its kernel driver. AMD's
// management library reads the same files, so nothing has to be installed. Unknown values stay 0 or "".
#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "backends/backend.h"

namespace ecmv::backends::hip {

// The active step of a "pp_dpm_*" file: "1: 1700Mhz *".
inline double current_clock_hz(const std::filesystem::path& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.find('*') != std::string::npos && colon != std::string::npos)
      return 1e6 * std::strtod(line.c_str() + colon + 1, nullptr);
  }
  return 0;
}

// Reads the binary file gpu_metrics. Formats 1.1 to 1.3 have the device's own code at byte 68; 1.3 also has a code at
// byte 112 that is the same for all devices: bits 0 to 15 power, 16 to 31 current, 32 to 55 temperature.
inline std::string throttle_reasons(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < 72 || bytes[2] != 1 || bytes[3] < 1 || bytes[3] > 3) return {};
  uint32_t own = 0;
  uint64_t common = 0;
  std::memcpy(&own, bytes.data() + 68, sizeof(own));
  const bool has_common = bytes[3] == 3 && bytes.size() >= 120;
  if (has_common) std::memcpy(&common, bytes.data() + 112, sizeof(common));
  constexpr uint64_t kNotTold = ~uint64_t{0};
  if (!has_common || common == kNotTold)
    return own == 0 ? "none" : own == ~uint32_t{0} ? "" : "of the device's own code " + std::to_string(own);
  std::string reasons;
  const auto add = [&](int first, int last, const char* name) {
    const uint64_t mask = ((uint64_t{1} << (last - first + 1)) - 1) << first;
    if ((common & mask) != 0) reasons += (reasons.empty() ? "" : ", ") + std::string(name);
  };
  add(0, 15, "power cap");
  add(16, 31, "current limit");
  add(32, 55, "thermal");
  add(56, 63, "other");
  return reasons.empty() ? "none" : reasons;
}

// `folder` is the PCI device's, "/sys/bus/pci/devices/0000:65:00.0".
inline DeviceState read_sysfs(const std::filesystem::path& folder) {
  DeviceState state;
  state.clock_hz = current_clock_hz(folder / "pp_dpm_sclk");
  state.memory_clock_hz = current_clock_hz(folder / "pp_dpm_mclk");
  state.throttle_reasons = throttle_reasons(folder / "gpu_metrics");
  const auto number = [](const std::filesystem::path& path) {
    std::ifstream file(path);
    double value = 0;
    return file >> value ? value : 0.0;
  };
  std::error_code none;
  for (const auto& sensor : std::filesystem::directory_iterator(folder / "hwmon", none)) {
    for (const char* name : {"power1_average", "power1_input"})
      if (state.power_w == 0) state.power_w = 1e-6 * number(sensor.path() / name);
    if (state.temperature_c == 0) state.temperature_c = 1e-3 * number(sensor.path() / "temp1_input");
  }
  return state;
}

}  // namespace ecmv::backends::hip
