// See trial.h.
#include "experiments/check/timed/trial.h"

#include <algorithm>
#include <set>
#include <utility>

#include "experiments/check/timed/device_witness.h"

namespace ecmv::experiments {

constexpr double kMostSeconds = 60;  // even where a case may take longer

Outcome try_loaded_kernel(const KernelSpec& kernel, const backends::ChosenKernel& chosen,
                          const codecs::CodecEntry& entry, std::span<const backends::CompressedMatrix> layers,
                          const backends::DeviceInfo& device, double seconds) {
  DeviceWitness* const witness = DeviceWitness::current();
  const bool on_gpu = device.wave_size > 0;
  if (witness == nullptr || !entry.loaded() || !on_gpu || chosen.kernel == nullptr || kernel.ranks > 1) return {};
  KernelSpec spec = kernel;
  spec.chosen = chosen;
  std::set<std::pair<int64_t, int64_t>> shapes;
  for (const backends::CompressedMatrix& layer : layers) {
    if (layer.shape.elements() == 0 || !shapes.emplace(layer.shape.rows, layer.shape.cols).second) continue;
    if (Outcome outcome = witness->try_out(spec, layer, device, std::min(seconds, kMostSeconds)); !outcome.fine())
      return outcome;
  }
  return {};
}

}  // namespace ecmv::experiments
