// See device_pool.h.
#include "experiments/device_pool.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "experiments/fill_record.h"

namespace ecmv::experiments {

DevicePool::Slot& DevicePool::open(const KernelSpec& kernel) {
  Slot& slot = slots_[fmt::format("{}:{}:{}:{}", kernel.backend, kernel.simd_target, kernel.threads, kernel.device)];
  if (slot.device != nullptr || !slot.reason.empty()) return slot;
  const backends::Backend* backend = backends::find_backend(kernel.backend);
  if (backend == nullptr) {
    slot.reason = "There is no backend '" + kernel.backend + "' in this build.";
    return slot;
  }
  try {
    slot.device = backend->open({kernel.threads, kernel.simd_target, kernel.device});
  } catch (const std::invalid_argument& e) {
    slot.reason = e.what();
  }
  return slot;
}

backends::Device* DevicePool::find(const KernelSpec& kernel) { return open(kernel).device.get(); }

std::string DevicePool::reason(const KernelSpec& kernel) { return open(kernel).reason; }

void DevicePool::measure_bandwidth(const KernelSpec& kernel, const std::string& run_id,
                                        const std::function<void(const reports::BandwidthRecord&)>& on_bandwidth) {
  KernelSpec best = kernel;
  if (backends::Device* device = find(kernel); device != nullptr && device->memory() == "host") best.simd_target.clear();
  Slot& slot = open(best);
  if (slot.device == nullptr || slot.device->info().emulated) return;
  if (++bandwidth_records_[fmt::format("{}:{}", slot.device->memory(), slot.device->info().threads)] > kBandwidthRecords) return;
  const backends::DeviceInfo& info = slot.device->info();
  reports::BandwidthRecord record;
  record.run = run_id;
  record.backend = info.backend;
  record.device = device_label(*slot.device);
  record.threads = info.threads;
  // A GPU reads longer: with half a gigabyte an H200 showed 4.38 TB/s, with one gigabyte 4.51 to 4.59.
  const int64_t least = info.wave_size > 0 ? std::min<int64_t>(int64_t{2} << 30, info.memory_bytes / 8) : int64_t{512} << 20;
  record.bytes = std::max<int64_t>(4 * info.llc_bytes, least);
  record.samples_s = slot.device->time_reads(record.bytes, 9);
  record.read_bytes_per_s = static_cast<double>(record.bytes) / quantile(record.samples_s, 0.5);
  on_bandwidth(record);
}

}  // namespace ecmv::experiments
