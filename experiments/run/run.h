// Runs an experiment: cases in, records out. Reads like section "The flow of one run" of CONTRIBUTING.md.
#pragma once

#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/core_speed.h"
#include "codecs/registry.h"
#include "experiments/check/check.h"
#include "experiments/config/case.h"
#include "experiments/plan/device_pool.h"
#include "experiments/ranks/rank_team.h"
#include "reports/record.h"

namespace ecmv::experiments {

struct RunOptions {
  std::span<const codecs::CodecEntry> codecs = codecs::all_codecs();
  bool time = true;            // false: verify only
  std::set<std::string> done;  // keys of cases that are finished already (resume)
  std::string run_id;          // links the records of this run; from make_run_record()
  std::function<bool()> interrupted = [] { return false; };
  // Takes each record as soon as its case has finished.
  std::function<void(const reports::CaseRecord&)> on_case;
  std::function<void(const reports::BandwidthRecord&)> on_bandwidth;
  std::ostream* progress = nullptr;           // plain lines (progress.h); nullptr: silent
  bool every_case = true;                     // every case gets a line; false: only failures
  double batch_seconds = 20;                  // measuring time of a batch of interleaved cases, which a kill loses
  backends::cpu::CoreWatch* cores = nullptr;  // read while cases are measured; nullptr: not
  // Opens devices; tests put failing ones here.
  DevicePool::Open open_device = experiments::open_device;
  PreparePass prepare = backends::prepare;
};

struct RunSummary {
  std::map<reports::Status, int> counts;
  std::map<std::string, int> refusals;                        // by reason, unavailable cases included
  std::vector<std::pair<std::string, std::string>> failures;  // short name and reason, neither ok nor refused
  int skipped = 0;                                            // done before
  int disturbed = 0;               // ok, but other programs or unsteady cores disturbed it (reports::is_disturbed)
  reports::Disturbers disturbers;  // of these
  bool interrupted = false;
  // 0 all fine (refusals allowed), 3 verification failed or not performed, 5 some case failed, 6 nothing ran, 130
  // interrupted.
  int exit_code() const;
};

RunSummary run_experiment(const Experiment& experiment, const RunOptions& options);

}  // namespace ecmv::experiments
