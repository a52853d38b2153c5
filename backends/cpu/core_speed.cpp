// See core_speed.h.
#include "backends/cpu/core_speed.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "backends/cpu/crew.h"

namespace ecmv::backends::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kDependent = 6'000, kIndependent = 5'000;  // turns of a loop: several microseconds each

// The empty statements keep the compiler from folding or vectorising the operations.
uint64_t run_dependent(uint64_t x) {
  for (int i = 0; i < kDependent; ++i) {
    x = x * 0x9E3779B97F4A7C15u + 1;
    asm volatile("" : "+r"(x));
  }
  return x;
}

uint64_t run_independent(uint64_t x) {
  uint64_t a = x, b = x + 1, c = x + 2, d = x + 3, e = x + 4, f = x + 5, g = x + 6, h = x + 7;
  const auto keep = [&] { asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h)); };
  for (int i = 0; i < kIndependent; ++i) {
    a += x, b += x, c += x, d += x, e += x, f += x, g += x, h += x;
    keep();
    a ^= x, b ^= x, c ^= x, d ^= x, e ^= x, f ^= x, g ^= x, h ^= x;
    keep();
  }
  return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h;
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct LoopTimes {
  double dependent_s = 0, independent_s = 0;
};
LoopTimes time_loops() {
  uint64_t value = 1;
  std::vector<double> dependent, independent;
  for (const bool counts : {false, true}) {
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(counts ? 5 : 10);
    do {
      const Clock::time_point begin = Clock::now();
      value = run_dependent(value);
      const Clock::time_point between = Clock::now();
      value = run_independent(value);
      const Clock::time_point over = Clock::now();
      if (!counts) continue;
      dependent.push_back(std::chrono::duration<double>(between - begin).count() / kDependent);
      independent.push_back(std::chrono::duration<double>(over - between).count() / (16 * kIndependent));
    } while (Clock::now() < end);
  }
  return {median(dependent), median(independent)};
}

// The cores that this process may use, as numbers.
std::vector<int> allowed_cores() {
  cpu_set_t allowed;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  return cores;
}

// One thread for each core, bound to it unless a quota allows fewer cores than there are. If the system gives too few
// threads, one core is read.
std::shared_ptr<Crew> crew_for(const std::vector<int>& cores) try {
  const int available = Crew::available_cores();
  return static_cast<int>(cores.size()) == available ? Crew::of(available, cores) : Crew::of(available);
} catch (const std::runtime_error&) {
  return Crew::of(1);
}

std::optional<double> first_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  double number;
  return file >> number ? std::optional(number) : std::nullopt;
}

// MHz of each processor, in the order of /proc/cpuinfo.
std::vector<double> told_mhz(const std::filesystem::path& path) {
  std::vector<double> all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("cpu MHz")) all.push_back(std::strtod(line.c_str() + line.find(':') + 1, nullptr));
  return all;
}

// The lower number; NaN only if both are.
double lower_of(double a, double b) { return std::isnan(a) ? b : std::isnan(b) ? a : std::min(a, b); }

}  // namespace

void read_sensors(CoreReading& reading, const std::vector<int>& cores, const std::filesystem::path& root) {
  const std::vector<double> mhz = told_mhz(root / "proc/cpuinfo");
  for (const int core : cores) {
    const std::filesystem::path folder = root / ("sys/devices/system/cpu/cpu" + std::to_string(core));
    if (const auto khz = first_number(folder / "cpufreq/scaling_cur_freq"))
      reading.clock_hz = lower_of(reading.clock_hz, 1e3 * *khz);
    else if (static_cast<size_t>(core) < mhz.size())
      reading.clock_hz = lower_of(reading.clock_hz, 1e6 * mhz[static_cast<size_t>(core)]);
    for (const char* count : {"core_throttle_count", "package_throttle_count"})
      if (const auto events = first_number(folder / "thermal_throttle" / count))
        reading.throttled = reading.throttled.value_or(0) + static_cast<int64_t>(*events);
  }
}

CoreReading read_cores() {
  CoreReading reading;
  const std::vector<int> cores = allowed_cores();
  const std::shared_ptr<Crew> crew = crew_for(cores);  // ends with the reading: its threads count against limits
  std::vector<LoopTimes> times(static_cast<size_t>(crew->threads()));
  crew->run([&](int thread) { times[static_cast<size_t>(thread)] = time_loops(); });
  for (const LoopTimes& core : times) {
    reading.dependent_s = std::max(reading.dependent_s, core.dependent_s);
    reading.independent_s = std::max(reading.independent_s, core.independent_s);
  }
  read_sensors(reading, cores);
  return reading;
}

bool CoreState::steady() const {
  const auto near = [](double share) { return share > 0.9 && share < 1 / 0.9; };
  return near(clock_share) && near(throughput_share) && throttle_events.value_or(0) == 0;
}

CoreState worse_of(const CoreState& a, const CoreState& b) {
  const auto farther = [](double x, double y) { return std::abs(std::log(x)) > std::abs(std::log(y)) ? x : y; };
  return {farther(a.clock_share, b.clock_share), farther(a.throughput_share, b.throughput_share),
          lower_of(a.dependent_ops_per_s, b.dependent_ops_per_s), lower_of(a.clock_hz, b.clock_hz),
          std::max(a.throttle_events, b.throttle_events)};  // unknown is less than any number
}

CoreState CoreWatch::start() {
  std::vector<CoreReading> readings(5);
  std::vector<double> dependent, independent;
  for (CoreReading& reading : readings) {
    reading = read_();
    dependent.push_back(reading.dependent_s);
    independent.push_back(reading.independent_s);
  }
  start_.emplace();
  start_->dependent_s = median(dependent);
  start_->independent_s = median(independent);
  throttled_ = {};
  CoreState worst;
  for (const CoreReading& reading : readings) worst = worse_of(worst, compare(reading));
  return worst;
}

CoreState CoreWatch::look() {
  const CoreReading now = read_();
  if (!start_) start_ = now;
  return compare(now);
}

CoreState CoreWatch::compare(const CoreReading& now) {
  CoreState state;
  state.clock_share = start_->dependent_s / now.dependent_s;
  state.throughput_share = start_->independent_s / now.independent_s;
  state.dependent_ops_per_s = 1 / now.dependent_s;
  state.clock_hz = now.clock_hz;
  if (now.throttled) state.throttle_events = std::max<int64_t>(0, *now.throttled - throttled_.value_or(*now.throttled));
  throttled_ = now.throttled;
  return state;
}

}  // namespace ecmv::backends::cpu
