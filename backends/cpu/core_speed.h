// How fast the cores are at a moment. Counters of time (host_load.h) do not see a lower clock, nor a busy sibling: the
// second thread of a core, perhaps another virtual machine's, takes throughput and no time. The kernel may tell clocks
// and throttling, but virtual machines are told neither. So two short loops are timed on every core at once: one of
// dependent operations, whose time is inverse to the clock, and one of independent operations, as many as a core can
// begin, which a busy sibling makes longer, too.
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
  double dependent_s = 0;    // one operation of the first loop on the slowest core: others wait for it
  double independent_s = 0;  // of the second
  // What the kernel tells; unknown where it does not.
  double clock_hz = std::numeric_limits<double>::quiet_NaN();  // the lowest
  std::optional<int64_t> throttled;                            // events since boot, of all cores together
};

// The part that needs no loop: cpufreq's scaling_cur_freq, else "cpu MHz" of /proc/cpuinfo, and the counts of
// thermal_throttle. `root` holds /proc and /sys.
void read_sensors(CoreReading& reading, const std::vector<int>& cores, const std::filesystem::path& root = "/");

// Times the loops on all cores that this process may use. It takes 15 ms, 10 of them for clocks to rise from idling.
// Times are medians, which a program that takes turns with us on a core does not move. Not within what is timed.
CoreReading read_cores();

// A reading against those at the start of the run.
struct CoreState {
  double clock_share = 1;       // speed in dependent operations, over that at the start
  double throughput_share = 1;  // the same in independent operations
  double dependent_ops_per_s = std::numeric_limits<double>::quiet_NaN();
  double clock_hz = std::numeric_limits<double>::quiet_NaN();  // as the kernel tells
  std::optional<int64_t> throttle_events;                      // since the reading before
  // Within a tenth of what it was, and no throttling. Faster counts, too: then the start was the bad moment, and what
  // was measured before and after cannot be compared. On two virtual cores of a Zen 4 server readings agree to a
  // hundredth, but for moments at 0.55 of the throughput; on 16 of a shared Xeon a third of them was off by a tenth,
  // some by a factor of 10 that no counter of the system showed.
  bool steady() const;
};
// What is farther from the start in either, and the larger number of events.
CoreState worse_of(const CoreState& a, const CoreState& b);

// Compares readings of one run.
class CoreWatch {
 public:
  using Read = std::function<CoreReading()>;
  explicit CoreWatch(Read read = read_cores) : read_(std::move(read)) {}
  // Takes five readings, whose medians the later ones are compared with; gives the worst of them. Without it the first
  // reading takes their place.
  CoreState start();
  CoreState look();

 private:
  CoreState compare(const CoreReading& now);
  Read read_;
  std::optional<CoreReading> start_;
  std::optional<int64_t> throttled_;
};

}  // namespace ecmv::backends::cpu
