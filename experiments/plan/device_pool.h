// The devices of a run: each is opened once, and its read bandwidth is measured a few times over the run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "backends/backend.h"
#include "experiments/config/case.h"
#include "reports/record.h"

namespace ecmv::experiments {

inline constexpr int kBandwidthRecords = 4;

// Opens the device that a kernel asks for. Throws std::invalid_argument with a sentence if the backend or the device is
// missing.
std::unique_ptr<backends::Device> open_device(const KernelSpec& kernel);

// How much memory a measurement of read bandwidth reads: 4 x the last-level cache, at least 512 MiB, or what half of
// the `available` bytes of the host (0: unknown) allow. 0: so little that it would stay in the cache.
int64_t bandwidth_bytes(const backends::DeviceInfo& info, int64_t available);

class DevicePool {
 public:
  using Open = std::function<std::unique_ptr<backends::Device>(const KernelSpec&)>;
  explicit DevicePool(Open open = open_device) : open_(std::move(open)) {}

  // nullptr if there is no such device; reason() then says why.
  backends::Device* find(const KernelSpec& kernel) { return slot(kernel).device.get(); }
  std::string reason(const KernelSpec& kernel) { return slot(kernel).reason; }

  // Reads bandwidth_bytes() 9 times; only the first kBandwidthRecords calls for each device do. Several records are
  // made because a shared machine may be slow for a moment; reports take the fastest. Devices that share a memory and a
  // number of threads count as one, with the best instruction set.
  std::optional<reports::BandwidthRecord> measure_bandwidth(const KernelSpec& kernel, const std::string& run_id);

 private:
  struct Slot {
    std::unique_ptr<backends::Device> device;
    std::string reason;
  };
  Slot& slot(const KernelSpec& kernel);
  Open open_;
  std::map<std::string, Slot> slots_;
  std::map<std::string, int> bandwidth_records_;  // by memory and threads
};

}  // namespace ecmv::experiments
