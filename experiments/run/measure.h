// Google Benchmark as the timing engine: passes are registered at run time with manual time from the device's clock,
// and the repetitions of all of them are interleaved at random, so that slow drifts of a shared machine meet all alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/cpu/core_speed.h"
#include "backends/pass.h"
#include "experiments/check/outcome.h"
#include "experiments/config/case.h"

namespace ecmv::experiments {

// Looks on while a pass is timed. Nothing of this is in the samples.
class SampleObserver {
 public:
  virtual ~SampleObserver() = default;
  virtual void before_sample() {}
  virtual void before_pass() {}
  virtual Outcome after_pass() { return {}; }
  // `passes`: that were timed in it. `last`: no sample follows, unless the run is interrupted before.
  virtual Outcome after_sample(int64_t /*passes*/, bool /*last*/) { return {}; }
};

struct TimedPass {
  std::string name;
  backends::Pass* pass = nullptr;
  double estimate_s = 0;               // of one pass, measured before; 0: unknown, a sample is one pass then
  SampleObserver* observer = nullptr;  // may be null
  bool on_host = true;                 // what holds up threads of this process disturbs its samples
  // Filled in:
  int repetitions = 1;                 // samples that were to be taken
  std::vector<double> samples_s = {};  // seconds of one pass; one entry a repetition, in the order of measurement
  std::vector<int64_t> disturbed_samples = {};  // by number in samples_s
  std::vector<int64_t> unsteady_samples = {};   // next to a reading of unsteady cores, by number too
  backends::cpu::CoreState cores = {};          // the worst reading next to a sample
  int64_t passes_per_sample = 1;
  Outcome outcome = {};  // unless ok, no further samples were taken
};

// Measures all passes together. What one of them throws is its own outcome, and the others are measured all the same.
// Returns early, with the samples there are, once `interrupted` says so. `cores`, which may be null, are looked at
// before the first sample, between samples about twice a second, and after the last one.
void measure_interleaved(std::vector<TimedPass>& passes, const MeasureSpec& spec,
                         const std::function<bool()>& interrupted, backends::cpu::CoreWatch* cores);

// Hands Google Benchmark's own flags (--benchmark_...) to it. Call it once, first, flags or not. Returns the flags that
// it does not know.
std::vector<std::string> initialise_timing(const std::vector<std::string>& flags);

}  // namespace ecmv::experiments
