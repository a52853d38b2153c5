// Times passes with Google Benchmark. Passes are registered at run time with manual time from the device's clock, and
// the repetitions of all of them are interleaved at random, so that slow drifts of a shared machine affect all alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/cpu/core_speed.h"
#include "backends/pass.h"
#include "experiments/check/outcome.h"
#include "experiments/config/case.h"
#include "experiments/run/other_threads.h"

namespace ecmv::experiments {

// Observes the timing of a pass. Its work is not in the samples.
class SampleObserver {
 public:
  virtual ~SampleObserver() = default;
  virtual void before_sample() {}
  virtual void before_pass() {}
  virtual Outcome after_pass() { return {}; }
  // How many passes it ran since the sample began, besides those that are timed: they take energy, too.
  virtual int64_t more_passes() const { return 0; }
  // `passes` were timed in the sample. `last`: no sample follows, unless the run is interrupted before.
  virtual Outcome after_sample(int64_t /*passes*/, bool /*last*/) { return {}; }
};

struct TimedPass {
  std::string name;
  backends::Pass* pass = nullptr;
  double estimate_s = 0;                // of one pass, measured before; 0: unknown, then a sample is one pass
  SampleObserver* observer = nullptr;   // may be null
  OtherThreads other_threads = {};      // of the host
  bool on_host = true;                  // held-up threads of this process disturb its samples
  std::function<double()> joules = {};  // the counter of its device; empty or 0: none
  // Filled in:
  int repetitions = 1;                 // samples to take at most
  bool settled = false;                // no more samples: they are enough (until_noise), or took max_seconds
  double spent_s = 0;                  // in samples; a busy machine makes it more than was estimated
  std::vector<double> samples_s = {};  // seconds of one pass; one entry a repetition, in the order of measurement
  std::vector<int64_t> disturbed_samples = {};  // by number in samples_s
  std::vector<int64_t> unsteady_samples = {};   // by number: next to a reading of unsteady cores
  backends::cpu::CoreState cores = {};          // the worst reading next to a sample
  int64_t passes_per_sample = 1;
  double energy_j = 0;        // by add_energy()
  int64_t energy_passes = 0;  // the passes that took it
  Outcome outcome = {};       // if not ok, no further samples were taken

  // Adds what the counter showed before and after so many passes. It may move less often than samples are taken, so
  // passes during which it stood still count as well. One that wrapped around says nothing.
  void add_energy(double before_j, double after_j, int64_t passes);
};

// Measures all passes together. An exception becomes the outcome of its pass, and the others are still measured. Once
// `interrupted` is true it returns with the samples so far. `cores`, which may be null, are read before the first
// sample, between samples about twice a second, and after the last one. `sampled` hears after each sample of any pass
// how many there were, and how many there will be at most.
void measure_interleaved(std::vector<TimedPass>& passes, const MeasureSpec& spec,
                         const std::function<bool()>& interrupted, backends::cpu::CoreWatch* cores,
                         const std::function<void(size_t samples, size_t of)>& sampled);

// Whether the 95 % interval of the samples' median is narrower than this part of it. Fewer than 8 samples have none.
bool is_settled(std::vector<double> samples_s, double until_noise);

// Passes Google Benchmark's own flags (--benchmark_...) to it and returns the flags that it does not know. Call it
// once, first, even without flags.
std::vector<std::string> initialise_timing(const std::vector<std::string>& flags);

}  // namespace ecmv::experiments
