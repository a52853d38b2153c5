// The devices of a run: opened once each, with their read bandwidth measured once each.
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

class DevicePool {
 public:
  // nullptr where the backend or device is not there; reason() then says why.
  backends::Device* find(const KernelSpec& kernel);
  std::string reason(const KernelSpec& kernel);

  // Reads 4 x the last-level cache, at least 512 MiB, 9 times; hands out the record the first time a device is asked for.
  // Devices that share a memory and a number of threads are measured once, with the best instruction set.
  void measure_bandwidth_once(const KernelSpec& kernel, const std::string& run_id,
                              const std::function<void(const reports::BandwidthRecord&)>& on_bandwidth);

 private:
  struct Slot {
    std::unique_ptr<backends::Device> device;
    std::string reason;
  };
  Slot& open(const KernelSpec& kernel);
  std::map<std::string, Slot> slots_;
  std::set<std::string> bandwidth_measured_;
};

}  // namespace ecmv::experiments
