// Where cases end: one record each, handed out at once, counted, and shown.
#pragma once

#include <span>
#include <vector>

#include "experiments/check/outcome.h"
#include "experiments/output/progress.h"
#include "experiments/run/run.h"

namespace ecmv::experiments {

class Recorder {
 public:
  Recorder(const Experiment& experiment, const RunOptions& options)
      : progress(options.progress, experiment.cases.size(), options.every_case), options_(options) {}

  // Those that no earlier run has finished; the others count as skipped.
  std::vector<const Case*> left(std::span<const Case> cases);
  // Throws what RunOptions::on_case throws: a record that cannot be kept ends the run.
  void finish(const Case& one, reports::CaseRecord record, const Outcome& outcome);
  // Says what went wrong where it costs no case.
  void note(const std::string& what, const Outcome& outcome);

  RunSummary summary;
  Progress progress;

 private:
  const RunOptions& options_;
};

}  // namespace ecmv::experiments
