// See device_pool.h.
#include "experiments/plan/device_pool.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "backends/cpu/memory_limits.h"
#include "experiments/config/expand.h"
#include "experiments/ranks/rank_team.h"
#include "experiments/run/case_record.h"
#include "reports/metrics.h"

namespace ecmv::experiments {

namespace {

// Why a run shares no devices: there are too few, or the verb starts no processes.
std::string why_not_shared(const KernelSpec& kernel) {
  const int here = devices_here(kernel);
  return here < kernel.ranks
             ? too_few_devices(kernel, static_cast<size_t>(here))
             : fmt::format("The case needs {} devices, which only 'ecmv run' shares products among.", kernel.ranks);
}

}  // namespace

std::unique_ptr<backends::Device> open_device(const KernelSpec& kernel) {
  if (kernel.ranks > 1) {
    RankTeam* team = RankTeam::get();
    if (on_host(kernel.backend) && (team == nullptr || team->for_devices()))
      throw std::invalid_argument(
          fmt::format("The case needs {0} ranks: mpirun -n {0} ecmv run --mpi ...", kernel.ranks));
    if (team == nullptr || (team->for_devices() && team->size() < kernel.ranks))
      throw std::invalid_argument(why_not_shared(kernel));
    return std::make_unique<RankDevice>(*team, kernel);
  }
  const backends::Backend* backend = backends::find_backend(kernel.backend);
  if (backend == nullptr) throw std::invalid_argument("There is no backend '" + kernel.backend + "' in this build.");
  return backend->open({kernel.threads, kernel.simd_target, kernel.device});
}

DevicePool::Slot& DevicePool::slot(const KernelSpec& kernel) {
  Slot& slot = slots_[fmt::format("{}:{}:{}:{}:{}:{}", kernel.backend, kernel.simd_target, kernel.threads,
                                  kernel.device, kernel.ranks, kernel.engine)];
  if (slot.device == nullptr && slot.reason.empty()) try {
      slot.device = open_(kernel);
    } catch (const std::invalid_argument& e) {
      slot.reason = e.what();
    }
  return slot;
}

int64_t bandwidth_bytes(const backends::DeviceInfo& info, int64_t available) {
  // A GPU reads more: with half a gigabyte an H200 showed 4.38 TB/s, with one gigabyte 4.51 to 4.59.
  if (info.wave_size > 0)
    return std::max<int64_t>(4 * info.llc_bytes, std::min<int64_t>(int64_t{2} << 30, info.memory_bytes / 8));
  const int64_t wanted = std::max<int64_t>(4 * info.llc_bytes, int64_t{512} << 20);
  const int64_t bytes = available > 0 ? std::min(wanted, available / 2) : wanted;
  return bytes >= 2 * info.llc_bytes ? bytes / 64 * 64 : 0;
}

std::optional<reports::BandwidthRecord> DevicePool::measure_bandwidth(const KernelSpec& kernel,
                                                                      const std::string& run_id) {
  KernelSpec best = kernel;
  if (backends::Device* device = find(kernel); device != nullptr && device->memory() == "host")
    best.simd_target.clear();
  backends::Device* device = find(best);
  if (device == nullptr || device->info().emulated) return std::nullopt;
  const backends::DeviceInfo& info = device->info();
  const int64_t bytes = bandwidth_bytes(info, backends::cpu::available_memory_bytes());
  if (bytes == 0) return std::nullopt;
  if (++bandwidth_records_[fmt::format("{}:{}", device->memory(), info.threads)] > kBandwidthRecords)
    return std::nullopt;
  reports::BandwidthRecord record;
  record.run = run_id;
  record.backend = info.backend;
  record.device = device_label(*device);
  record.threads = info.threads;
  record.bytes = bytes;
  record.samples_s = device->time_reads(record.bytes, 9);
  record.read_bytes_per_s = static_cast<double>(record.bytes) / reports::quantile(record.samples_s, 0.5);
  return record;
}

}  // namespace ecmv::experiments
