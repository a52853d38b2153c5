// Cases that are measured together, so that slow drifts of a shared machine affect all alike.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/run/admission.h"
#include "experiments/run/recorder.h"

namespace ecmv::experiments {

class Batch {
 public:
  Batch(const Experiment& experiment, const RunOptions& options, DevicePool& devices, Recorder& recorder)
      : experiment_(experiment), options_(options), devices_(devices), recorder_(recorder) {}
  void add(AdmittedCase admitted);
  bool empty() const { return cases_.empty(); }
  // True if its time is used up, or there is no memory for the layers of another codec.
  bool full() const;
  // Measures all cases, checks the results of the last passes (tier 2b), writes a record of each, and is empty again.
  // An exception of one pass ends its own case. An interrupted case gets no record: a resumed run takes it up again.
  void measure();

 private:
  using States = std::map<std::string_view, backends::DeviceState>;  // by memory
  States device_states(const std::vector<AdmittedCase>& cases);
  void measure_bandwidth(const KernelSpec& kernel);

  const Experiment& experiment_;
  const RunOptions& options_;
  DevicePool& devices_;
  Recorder& recorder_;
  std::vector<AdmittedCase> cases_;
  // By device and threads: the best measured, bytes/s. Measured after the first batch with a streamed case, and again
  // while cases beat it.
  std::map<std::string, double> bandwidths_;
  double seconds_ = 0;
};

}  // namespace ecmv::experiments
