// See measure.h. Google Benchmark decides the order, runs the loops and counts. We give it manual time and keep every
// repetition instead of its aggregates.
#include "experiments/run/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include <benchmark/benchmark.h>

#include "backends/cpu/host_load.h"

namespace ecmv::experiments {
namespace {

// Reports nothing: samples are recorded as they arise, and aggregates are not wanted.
class SilentReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

// Reads the cores between samples, and knows the samples around each reading: a sample is unsteady if the reading
// before or after it was.
class CoreReadings {
 public:
  explicit CoreReadings(backends::cpu::CoreWatch* watch) : watch_(watch) {}
  // Reads unless the last reading is fresh.
  void before_sample() {
    if (!last_ || std::chrono::steady_clock::now() - read_at_ > kFresh) read();
  }
  void sampled(TimedPass& timed) {
    if (watch_ == nullptr || !timed.on_host) return;
    const auto sample = static_cast<int64_t>(timed.samples_s.size()) - 1;
    note(timed, sample);
    since_.emplace_back(&timed, sample);
  }
  void read() {
    if (watch_ == nullptr) return;
    last_ = watch_->look();
    for (const auto& [timed, sample] : std::exchange(since_, {})) note(*timed, sample);
    read_at_ = std::chrono::steady_clock::now();
  }

 private:
  static constexpr std::chrono::milliseconds kFresh{500};
  void note(TimedPass& timed, int64_t sample) {
    timed.cores = worse_of(timed.cores, *last_);
    const auto place = std::ranges::lower_bound(timed.unsteady_samples, sample);
    if (!last_->steady() && (place == timed.unsteady_samples.end() || *place != sample))
      timed.unsteady_samples.insert(place, sample);
  }

  backends::cpu::CoreWatch* watch_;
  std::optional<backends::cpu::CoreState> last_;
  std::chrono::steady_clock::time_point read_at_;
  std::vector<std::pair<TimedPass*, int64_t>> since_;  // samples since the last reading
};

// A warm-up pass would double the time of passes that fill a whole sample, and would warm nothing lasting.
int warm_up_of(const TimedPass& timed, const MeasureSpec& spec) {
  return timed.passes_per_sample > 1 ? spec.warm_up : 0;
}

// One repetition. After a failure, an interruption, or once the median is settled it still goes through the loop, with
// a nominal time: the library ends the process if repetitions of one benchmark differ in their number of iterations, as
// skipped ones do.
void take_sample(TimedPass& timed, const MeasureSpec& spec, bool interrupted, CoreReadings& cores,
                 benchmark::State& state) {
  constexpr double kNominal = 1e-9;
  double seconds = 0;
  const auto unless_over = [&](const auto& step) {
    if (!interrupted && !timed.settled && timed.outcome.fine()) timed.outcome = guarded(step);
  };
  SampleObserver nobody;
  SampleObserver& observer = timed.observer != nullptr ? *timed.observer : nobody;
  double joules = 0;
  unless_over([&] {
    cores.before_sample();
    observer.before_sample();
    // Before the warm-up, so that nothing comes between it and the passes that are timed.
    joules = timed.joules ? timed.joules() : 0;
    for (int i = 0; i < warm_up_of(timed, spec); ++i) timed.pass->run();
  });
  const backends::cpu::HostLoad before = backends::cpu::read_host_load();
  int64_t passes = 0;
  for (auto _ : state) {
    double pass_s = kNominal;
    unless_over([&] {
      timed.other_threads.before_pass(passes++, timed.passes_per_sample);
      observer.before_pass();
      pass_s = timed.pass->run();
      return observer.after_pass();
    });
    state.SetIterationTime(pass_s);
    seconds += pass_s;
  }
  bool last = false;
  timed.other_threads.after_sample();
  const bool held_up = backends::cpu::between(before, backends::cpu::read_host_load()).held_up();
  unless_over([&] {
    if (timed.on_host && held_up) timed.disturbed_samples.push_back(static_cast<int64_t>(timed.samples_s.size()));
    timed.samples_s.push_back(seconds / static_cast<double>(timed.passes_per_sample));
    timed.spent_s += seconds;
    cores.sampled(timed);
    if (joules > 0)
      timed.add_energy(joules, timed.joules(),
                       timed.passes_per_sample + warm_up_of(timed, spec) + observer.more_passes());
    last = timed.samples_s.size() == static_cast<size_t>(timed.repetitions) || timed.spent_s > spec.max_seconds ||
           is_settled(timed.samples_s, spec.until_noise);
    return observer.after_sample(timed.passes_per_sample, last);
  });
  timed.settled = timed.settled || last;
  state.SetLabel(interrupted || !timed.outcome.fine() ? "not measured: " + timed.name
                                                      : timed.name);  // for --benchmark_out
}

}  // namespace

void TimedPass::add_energy(double before_j, double after_j, int64_t passes) {
  if (after_j >= before_j) energy_j += after_j - before_j, energy_passes += passes;
}

bool is_settled(std::vector<double> samples_s, double until_noise) {
  const auto count = static_cast<double>(samples_s.size());
  const auto below = static_cast<int64_t>(std::floor(count / 2 - 0.98 * std::sqrt(count)));  // ranks outside
  if (!(until_noise > 0) || below < 1) return false;
  std::ranges::sort(samples_s);
  const double low = samples_s[static_cast<size_t>(below) - 1], high = samples_s[samples_s.size() - below];
  return high - low < until_noise * samples_s[samples_s.size() / 2];
}

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

void measure_interleaved(std::vector<TimedPass>& passes, const MeasureSpec& spec,
                         const std::function<bool()>& interrupted, backends::cpu::CoreWatch* cores,
                         const std::function<void(size_t samples, size_t of)>& sampled) {
  benchmark::ClearRegisteredBenchmarks();
  CoreReadings readings(cores);
  size_t samples = 0, most_samples = 0;
  for (size_t i = 0; i < passes.size(); ++i) {
    TimedPass& timed = passes[i];
    const std::string id = "pass" + std::to_string(i);  // case names have '/' and ':', at which Google Benchmark splits
    const double estimate = timed.estimate_s > 0 ? std::max(timed.estimate_s, 1e-7) : spec.min_time_s;
    timed.passes_per_sample = std::clamp<int64_t>(std::llround(spec.min_time_s / estimate), 1, 1'000'000);
    const double sample_s = estimate * static_cast<double>(timed.passes_per_sample + warm_up_of(timed, spec));
    timed.repetitions =
        static_cast<int>(std::clamp(spec.max_seconds / sample_s, 1.0, static_cast<double>(spec.repetitions)));
    most_samples += static_cast<size_t>(timed.repetitions);
    benchmark::RegisterBenchmark(id.c_str(),
                                 [&](benchmark::State& state) {
                                   take_sample(timed, spec, interrupted(), readings, state);
                                   sampled(++samples, most_samples);
                                 })
        ->UseManualTime()
        ->Iterations(timed.passes_per_sample)
        ->Repetitions(timed.repetitions);
  }
  SilentReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter, "all");
  readings.read();
  benchmark::ClearRegisteredBenchmarks();
}

}  // namespace ecmv::experiments
