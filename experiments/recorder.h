// Where cases end: one record each, handed out at once, counted, and shown as a line of progress.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "experiments/outcome.h"
#include "experiments/run.h"

namespace ecmv::experiments {

class Recorder {
 public:
  Recorder(const Experiment& experiment, const RunOptions& options) : experiment_(experiment), options_(options) {}

  // Those that no earlier run has finished; the others count as skipped.
  std::vector<const Case*> left(std::span<const Case> cases);
  // Throws what RunOptions::on_case throws: a record that cannot be kept ends the run.
  void finish(const Case& one, reports::CaseRecord record, const Outcome& outcome);
  // Says what went wrong where it costs no case.
  void note(const std::string& what, const Outcome& outcome);

  RunSummary summary;

 private:
  void show(const Case& one, const reports::CaseRecord& record);
  const Experiment& experiment_;
  const RunOptions& options_;
  size_t finished_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace ecmv::experiments
