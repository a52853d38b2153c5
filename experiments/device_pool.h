// The devices of a run: opened once each, with their read bandwidth measured a few times over the run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "backends/backend.h"
#include "experiments/case.h"
#include "reports/record.h"

namespace ecmv::experiments {

inline constexpr int kBandwidthRecords = 4;

class DevicePool {
 public:
  // nullptr where the backend or device is not there; reason() then says why.
  backends::Device* find(const KernelSpec& kernel);
  std::string reason(const KernelSpec& kernel);

  // Reads 4 x the last-level cache, at least 512 MiB, 9 times, and hands out a record; the first kBandwidthRecords calls for
  // each device, so that a moment in which a shared machine is slow does not become its read bandwidth: reports take the
  // fastest record. Devices that share a memory and a number of threads count as one, with the best instruction set.
  void measure_bandwidth(const KernelSpec& kernel, const std::string& run_id,
                         const std::function<void(const reports::BandwidthRecord&)>& on_bandwidth);

 private:
  struct Slot {
    std::unique_ptr<backends::Device> device;
    std::string reason;
  };
  Slot& open(const KernelSpec& kernel);
  std::map<std::string, Slot> slots_;
  std::map<std::string, int> bandwidth_records_;  // handed out, by memory and threads
};

}  // namespace ecmv::experiments
