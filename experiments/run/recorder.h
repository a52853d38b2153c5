// The end of cases: each gets a record, which is written at once, counted and shown.
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

  // The cases that no earlier run has finished; the others count as skipped.
  std::vector<const Case*> left(std::span<const Case> cases);
  // Rethrows from RunOptions::on_case: a record that cannot be stored ends the run.
  void finish(const Case& one, reports::CaseRecord record, const Outcome& outcome);
  // Reports an error that costs no case.
  void note(const std::string& what, const Outcome& outcome);

  RunSummary summary;
  Progress progress;

 private:
  const RunOptions& options_;
};

}  // namespace ecmv::experiments
