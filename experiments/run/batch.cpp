// See batch.h.
#include "experiments/run/batch.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include <fmt/format.h>

#include "backends/cpu/memory_limits.h"
#include "experiments/check/sample_check.h"
#include "experiments/ranks/rank_team.h"
#include "experiments/run/case_record.h"
#include "experiments/run/measure.h"

namespace ecmv::experiments {
namespace {

// Other ranks of this run do not count as other programs.
backends::cpu::HostLoad load_of_all_ranks() {
  backends::cpu::HostLoad load = backends::cpu::read_host_load();
  if (RankTeam* team = RankTeam::get()) load.own_s += team->cpu_seconds_of_others();
  return load;
}

// Seconds from one pass to the next, used to fill samples with passes. Commands to ranks take up to about a
// millisecond, which is not timed but has to be waited for.
double pace_of(const AdmittedCase& admitted) {
  constexpr double kTelling = 1e-3;
  const bool told = admitted.one->kernel.ranks > 1 && admitted.estimate_s > 0;
  return told ? std::max(admitted.estimate_s, kTelling) : admitted.estimate_s;
}

// Ranks have more devices than this process can ask. A device that shows no counter is not asked again.
std::function<double()> energy_counter(const AdmittedCase& admitted) {
  backends::Device* const device = admitted.device;
  if (admitted.one->kernel.ranks > 1 || device->joules() <= 0) return {};
  return [device] { return device->joules(); };
}

std::string place_of(const std::string& device, int64_t threads) { return fmt::format("{}, {}", device, threads); }

// The work of a thread that nobody counts is no work of the case's threads.
Outcome check_threads(const OtherThreads& others) {
  if (!others.worked()) return {};
  return {reports::Status::incorrect,
          fmt::format("other threads than the case's {} worked for {:.2g} s of {:.2g} s of samples", others.threads(),
                      others.seconds(), others.of_seconds())};
}

// The threads of a case on this host alone.
int threads_of(const AdmittedCase& admitted) {
  const backends::Device& device = *admitted.device;
  return device.memory() == "host" && device.shared() == nullptr ? static_cast<int>(device.info().threads) : 0;
}

// Times the exchange alone and the product alone, as often as whole passes.
void measure_shares(const TimedPass& timed, reports::CaseRecord::Ranks& ranks) {
  for (const auto& [share, samples] : {std::pair(backends::Share::exchange, &ranks.exchange_samples_s),
                                       {backends::Share::product, &ranks.product_samples_s}})
    for (size_t sample = 0; sample < timed.samples_s.size(); ++sample) {
      double seconds = 0;
      const int64_t passes = std::min<int64_t>(timed.passes_per_sample, 100);
      for (int64_t i = 0; i < passes; ++i) seconds += timed.pass->run_share(share);
      samples->push_back(seconds / static_cast<double>(passes));
    }
}

}  // namespace

void Batch::add(AdmittedCase admitted) {
  const MeasureSpec& measure = experiment_.measure;
  seconds_ +=
      std::min(measure.max_seconds, measure.repetitions * std::max(admitted.estimate_s, 1.5 * measure.min_time_s));
  cases_.push_back(std::move(admitted));
}

bool Batch::full() const {
  if (cases_.empty() || seconds_ > options_.batch_seconds) return !cases_.empty();
  int64_t raw = 0;
  const AdmittedCase& last = cases_.back();
  const bool on_device = !last.device->memory().starts_with("host");  // copies of blocks are there
  const size_t layers = on_device ? last.reference.matrices->size() : last.reference.layers();
  for (size_t layer = 0; layer < layers; ++layer)
    raw += static_cast<int64_t>(
        (*last.reference.matrices)[on_device ? layer : last.reference.matrix_of(layer)].elements.size());
  return backends::cpu::available_memory_bytes() < 3 * raw + (int64_t{1} << 30);
}

void Batch::measure() {
  std::vector<AdmittedCase> cases = std::exchange(cases_, {});  // whatever happens, they are measured once
  const double about_s = std::exchange(seconds_, 0);
  if (cases.empty()) return;
  std::vector<TimedPass> timed;
  ExpectedCopies copies;  // made once all passes have their memory
  UploadChecks uploads;
  FreshInputs fresh;
  std::deque<SampleCheck> checks;
  States before = device_states(cases);
  for (AdmittedCase& admitted : cases)
    timed.push_back({.name = admitted.one->name(),
                     .pass = admitted.pass.get(),
                     .estimate_s = pace_of(admitted),
                     .observer = &checks.emplace_back(admitted, copies, uploads, fresh, experiment_.verify_each,
                                                      is_single_pass(experiment_.measure)),
                     .other_threads = OtherThreads(threads_of(admitted)),
                     .on_host = admitted.device->memory().starts_with("host"),
                     .joules = energy_counter(admitted)});
  recorder_.progress.phase(fmt::format("measuring a batch of {} case{}, about {}", cases.size(),
                                       cases.size() == 1 ? "" : "s", duration_text(about_s)));
  const backends::cpu::HostLoad load = load_of_all_ranks();
  const auto start = std::chrono::steady_clock::now();
  const auto sampled = [&](size_t samples, size_t of) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    recorder_.progress.sampled(samples, of, taken.count());
  };
  const Outcome together =
      guarded([&] { measure_interleaved(timed, experiment_.measure, options_.interrupted, options_.cores, sampled); });
  const backends::cpu::Disturbance disturbance = backends::cpu::between(load, load_of_all_ranks());
  States after = device_states(cases);
  recorder_.progress.together(cases.size());
  std::map<std::string, const Case*> beyond;  // by device and threads: a streamed case that beats what was measured
  for (size_t i = 0; i < cases.size(); ++i) {
    AdmittedCase& admitted = cases[i];
    const TimedPass& pass = timed[i];
    if (static_cast<int>(pass.samples_s.size()) < pass.repetitions && options_.interrupted()) continue;
    Outcome outcome = pass.outcome.fine() ? together : pass.outcome;
    if (outcome.fine() && pass.samples_s.empty()) outcome = {reports::Status::error, "No sample was taken."};
    if (outcome.fine()) outcome = check_threads(pass.other_threads);
    if (outcome.fine()) outcome = guarded([&] { return checks[i].finish(); });
    if (outcome.fine() && admitted.one->kernel.ranks > 1)
      outcome = guarded([&] { measure_shares(pass, admitted.record.ranks); });
    if (outcome.fine()) {
      fill_time(admitted.record, pass, admitted.reference, admitted.one->kernel.op(), admitted.device->info());
      fill_host(admitted.record, disturbance, pass.cores);
      const double read_bytes_per_s =
          static_cast<double>(admitted.record.size.stored_bytes) / admitted.record.time.median_s;
      // Ranks are no measure, since each reads its own part.
      if (admitted.record.time.cache == "streamed" && admitted.one->kernel.ranks == 1 &&
          read_bytes_per_s > bandwidths_[place_of(admitted.record.kernel.device, admitted.record.kernel.threads)])
        beyond[place_of(admitted.record.kernel.device, admitted.record.kernel.threads)] = admitted.one;
      fill_clocks(admitted.record, before[admitted.device->memory()], after[admitted.device->memory()]);
    }
    recorder_.finish(*admitted.one, admitted.record, outcome);
  }
  if (experiment_.measure.bandwidth)
    for (const auto& [place, one] : beyond) measure_bandwidth(one->kernel);
}

// The devices' clocks now. A device that does not answer costs no case.
Batch::States Batch::device_states(const std::vector<AdmittedCase>& cases) {
  States states;
  for (const AdmittedCase& admitted : cases)
    if (const auto [entry, is_new] = states.try_emplace(admitted.device->memory()); is_new) {
      backends::DeviceState& state = entry->second;
      recorder_.note("The state of a device was not read", guarded([&] { state = admitted.device->state(); }));
    }
  return states;
}

// A bandwidth that cannot be measured costs no case either.
void Batch::measure_bandwidth(const KernelSpec& kernel) {
  if (!options_.on_bandwidth) return;
  recorder_.progress.aside(fmt::format("measuring the read bandwidth for {}", kernel.backend));
  std::optional<reports::BandwidthRecord> record;
  recorder_.note("The read bandwidth was not measured",
                 guarded([&] { record = devices_.measure_bandwidth(kernel, options_.run_id); }));
  if (!record) return;
  double& best = bandwidths_[place_of(record->device, record->threads)];
  best = std::max(best, record->read_bytes_per_s);
  options_.on_bandwidth(*record);
}

}  // namespace ecmv::experiments
