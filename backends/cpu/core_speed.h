// Measures how fast the cores are at a moment. Counters of time (host_load.h) see neither a lower clock nor a busy
// sibling: the second thread of a core, perhaps another virtual machine's, takes throughput and no time. The kernel may
// report clocks and throttling, but not to virtual machines. So two short loops are timed on every core at once. The
// time of the first, of dependent operations, is inverse to the clock. The second begins as many independent operations
// as a core can, and a busy sibling slows it, too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace ecmv::backends::cpu {

struct CoreReading {
  double dependent_s = 0;    // one operation of the first loop on the slowest core, which the others wait for
  double independent_s = 0;  // one operation of the second loop
  // As the kernel reports; unknown where it does not.
  double clock_hz = std::numeric_limits<double>::quiet_NaN();  // the lowest
  std::optional<int64_t> throttled;                            // events since boot, of all cores together
};

// Reads what needs no loop: cpufreq's scaling_cur_freq, else "cpu MHz" of /proc/cpuinfo, and the counts of
// thermal_throttle. `root` holds /proc and /sys.
void read_sensors(CoreReading& reading, const std::vector<int>& cores, const std::filesystem::path& root = "/");

// Times the loops on all cores that this process may use. It takes 15 ms, 10 of them so that idle clocks can rise.
// Times are medians, which a program that takes turns on a core does not move. Call it outside timed work.
CoreReading read_cores();

// A reading relative to the start of the run.
struct CoreState {
  double clock_share = 1;       // speed of dependent operations, relative to the start
  double throughput_share = 1;  // the same for independent operations
  double dependent_ops_per_s = std::numeric_limits<double>::quiet_NaN();
  double clock_hz = std::numeric_limits<double>::quiet_NaN();  // as the kernel reports
  std::optional<int64_t> throttle_events;                      // since the reading before
  // True if both shares lie within a tenth of the start and nothing was throttled. Faster counts as unsteady too: then
  // the start was the bad moment, and results before and after cannot be compared. On two virtual cores of a Zen 4
  // server readings agreed to a hundredth, except for moments at 0.55 of the throughput. On 16 cores of a shared Xeon a
  // third of them was off by a tenth, some by a factor of 10 that no counter of the system showed.
  bool steady() const;
};
// For each share, the one farther from the start; and the larger number of events.
CoreState worse_of(const CoreState& a, const CoreState& b);

// Compares readings of one run.
class CoreWatch {
 public:
  using Read = std::function<CoreReading()>;
  explicit CoreWatch(Read read = read_cores) : read_(std::move(read)) {}
  // Takes five readings and returns the worst of them. Later readings are compared with their medians, or with the
  // first reading if start() is not called.
  CoreState start();
  CoreState look();

 private:
  CoreState compare(const CoreReading& now);
  Read read_;
  std::optional<CoreReading> start_;
  std::optional<int64_t> throttled_;
};

}  // namespace ecmv::backends::cpu
