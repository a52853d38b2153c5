// The parts of kernel tables and devices that every binary needs, plugins included.
#include "backends/kernel.h"

#include "backends/pass.h"

namespace ecmv::backends {

std::string_view activations_name(Activations activations) { return activations == Activations::bf16 ? "bf16" : "f32"; }

bool takes_scales(const Kernel& kernel, const datasets::Scales& scales) {
  if (kernel.group_cols == 0) return scales.empty() || scales.one_a_row();
  return !scales.empty() && scales.type == datasets::ScaleType::bf16 && scales.factor == 1 &&
         takes_groups(kernel, scales.group_cols);
}

// A kernel is asked to choose only for a matrix that it takes, since it reads headers for that.
const Policy& chosen_policy(const Kernel& kernel, const CompressedView& matrix, const DeviceInfo& device, int batch) {
  const auto takes = [&](const Policy& policy) { return kernel.refuses(matrix, device, policy).empty(); };
  for (const Policy& first : kernel.policies) {
    if (!takes(first)) continue;
    const Policy* chosen =
        kernel.choose == nullptr ? nullptr : kernel.policies.find(kernel.choose(matrix, device, batch));
    return chosen != nullptr && takes(*chosen) ? *chosen : first;
  }
  return kernel.policies[0];
}

std::unique_ptr<Pass> Device::prepare(const PassPlan&) { return nullptr; }

std::string refuses_nothing(const CompressedView&, const DeviceInfo&, const Policy&) { return {}; }

}  // namespace ecmv::backends
