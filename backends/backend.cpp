// The list of backends and the one requantisation rule.
#include "backends/backend.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/cpu_device.h"
#include "backends/plugins/plugins.h"

namespace ecmv::backends {

std::span<const Backend> all_backends() {
  static const std::vector<Backend> backends = [] {
    std::vector<Backend> list = {
        {"scalar", "portable C++, OpenMP threads", cpu::scalar_devices, cpu::open_scalar},
        {"simd", "Highway SIMD with dynamic dispatch, OpenMP threads", cpu::simd_devices, cpu::open_simd},
    };
    for (const Backend& backend : plugin_backends()) list.push_back(backend);
    return list;
  }();
  return backends;
}

const Backend* find_backend(std::string_view id) {
  for (const Backend& backend : all_backends())
    if (backend.id == id) return &backend;
  return nullptr;
}

std::string why_unavailable(const Backend& backend) {
  std::string reason = "no device found";
  for (const DeviceInfo& info : backend.devices()) {
    reason = info.unavailable;
    if (reason.empty()) break;
  }
  return reason;
}

int8_t requantise(int32_t accumulator, float scale) {
  // nearbyint under the default rounding mode: ties to even. A float32 product on every platform: contraction is off.
  const float rounded = std::nearbyintf(static_cast<float>(accumulator) * scale);
  return static_cast<int8_t>(std::clamp(rounded, -128.0f, 127.0f));
}

}  // namespace ecmv::backends
