// See measure.h. Google Benchmark decides the order, runs the loops and counts; we give it manual time and keep every
// repetition instead of its aggregates.
#include "experiments/measure.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <benchmark/benchmark.h>

namespace ecmv::experiments {
namespace {

// Google Benchmark renamed what SkipWithError leaves behind: error_occurred and error_message until 1.7, skipped and
// skip_message since 1.8.
template <typename Run>
bool failed(const Run& run, std::string& message) {
  if constexpr (requires { run.error_occurred; }) {
    message = run.error_message;
    return run.error_occurred;
  } else {
    message = run.skip_message;
    return static_cast<int>(run.skipped) != 0;
  }
}

// Collects repetitions by name; prints nothing.
class SampleCollector final : public benchmark::BenchmarkReporter {
 public:
  explicit SampleCollector(std::map<std::string, TimedPass*> passes) : passes_(std::move(passes)) {}
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const auto it = passes_.find(run.run_name.function_name);
      if (it == passes_.end()) continue;
      if (std::string message; failed(run, message))
        it->second->error = message;
      else if (run.iterations > 0)
        it->second->samples_s.push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
    }
  }

 private:
  std::map<std::string, TimedPass*> passes_;
};

}  // namespace

std::vector<std::string> initialise_timing(const std::vector<std::string>& flags) {
  // The library keeps pointers to the arguments.
  static std::vector<std::string> kept;
  kept = {"ecmv", "--benchmark_enable_random_interleaving=true"};
  kept.insert(kept.end(), flags.begin(), flags.end());
  std::vector<char*> arguments;
  for (std::string& flag : kept) arguments.push_back(flag.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  return {arguments.begin() + 1, arguments.begin() + count};
}

void measure_interleaved(std::vector<TimedPass>& passes, const MeasureSpec& spec, const std::function<bool()>& interrupted) {
  benchmark::ClearRegisteredBenchmarks();
  std::map<std::string, TimedPass*> by_name;
  for (size_t i = 0; i < passes.size(); ++i) {
    TimedPass& timed = passes[i];
    const std::string id = "pass" + std::to_string(i);  // case names hold '/' and ':', which Google Benchmark splits at
    const double estimate = timed.estimate_s > 0 ? std::max(timed.estimate_s, 1e-7) : spec.min_time_s;
    timed.passes_per_sample = std::clamp<int64_t>(std::llround(spec.min_time_s / estimate), 1, 1'000'000);
    // A warm-up pass would double the time of passes that fill a whole sample, and they warm nothing that lasts.
    const int warm_up = timed.passes_per_sample > 1 ? spec.warm_up : 0;
    const double sample_s = estimate * static_cast<double>(timed.passes_per_sample + warm_up);
    timed.repetitions = static_cast<int>(std::clamp(spec.max_seconds / sample_s, 1.0, static_cast<double>(spec.repetitions)));
    by_name[id] = &timed;
    benchmark::RegisterBenchmark(id.c_str(), [&timed, warm_up, &interrupted](benchmark::State& state) {
      if (interrupted()) return state.SkipWithError("interrupted");
      try {
        // Old results are wiped out, so that tier 2b sees what this sample wrote and not what an earlier one did.
        timed.pass->poison_outputs(1);
        for (int i = 0; i < warm_up; ++i) timed.pass->run();
        for (auto _ : state) state.SetIterationTime(timed.pass->run());
        if (timed.after_sample) timed.after_sample();
        state.SetLabel(timed.name);  // for --benchmark_out
      } catch (const std::exception& e) {
        state.SkipWithError(e.what());
      }
    })->UseManualTime()->Iterations(timed.passes_per_sample)->Repetitions(timed.repetitions);
  }
  SampleCollector collector(by_name);
  benchmark::RunSpecifiedBenchmarks(&collector, "all");
  benchmark::ClearRegisteredBenchmarks();
}

}  // namespace ecmv::experiments
