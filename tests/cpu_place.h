// For tests that bind CPU kernels without a backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "backends/kernel.h"

namespace ecmv::tests {

// CPU kernels ask it only for the device.
class CpuPlace final : public backends::Place {
 public:
  const backends::DeviceInfo& device() const override { return device_; }
  const std::byte* describe(std::span<const std::byte>) override {
    throw std::logic_error("No description is needed.");
  }
  std::byte* zeroed(int64_t) override { throw std::logic_error("No zeroed memory is needed."); }

 private:
  backends::DeviceInfo device_;
};

inline backends::BoundKernel bind_on_cpu(const backends::Kernel& kernel, const backends::Policy& policy,
                                         const backends::CompressedView& matrix, int batch = 1) {
  CpuPlace place;
  const backends::Layer layer{.matrix = &matrix, .y = nullptr, .v = nullptr, .scale = 0};
  return kernel.bind(policy, {&layer, 1}, batch, place);
}
// Binds a kernel with its first policy.
inline backends::BoundKernel bind_on_cpu(const backends::Kernel& kernel, const backends::CompressedView& matrix,
                                         int batch = 1) {
  return bind_on_cpu(kernel, kernel.policies[0], matrix, batch);
}

}  // namespace ecmv::tests
