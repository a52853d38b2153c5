// Claims about telling cores that keep their speed from cores that do not.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <atomic>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "backends/cpu/core_speed.h"

using namespace ecmv::backends::cpu;
namespace fs = std::filesystem;

namespace {

// A folder that stands in for /.
struct FakeRoot {
  fs::path path = fs::temp_directory_path() / ("ecmv_core_speed_" + std::to_string(getpid()));
  FakeRoot() { fs::remove_all(path); }
  ~FakeRoot() { fs::remove_all(path); }
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((path / file).parent_path());
    std::ofstream(path / file) << text;
  }
};

// A watch that gets these readings, one after the other.
CoreWatch watch_of(std::deque<CoreReading> readings) {
  return CoreWatch([readings]() mutable {
    const CoreReading next = readings.front();
    readings.pop_front();
    return next;
  });
}

CoreReading reading(double dependent_s, double independent_s, std::optional<int64_t> throttled = {}) {
  return {dependent_s, independent_s, NAN, throttled};
}

// Another thread of this thread's core that this process may use; -1: none.
int sibling_of(int core) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -1;
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/thread_siblings_list");
  int found = -1, number;
  for (char separator = ','; file >> number; file >> separator)  // "0,32" or "0-1": of two both forms name both
    if (number != core && CPU_ISSET(number, &allowed)) found = number;
  return found;
}

}  // namespace

TEST_CASE("clocks are the lowest that cpufreq tells, and the counts of throttling add up") {
  const FakeRoot root;
  const std::string cpu = "sys/devices/system/cpu/cpu";
  root.put("proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 1000.000\n\nprocessor\t: 1\ncpu MHz\t\t: 1100.000\n");
  for (const char* number : {"0", "1", "2"}) root.put(cpu + number + "/cpufreq/scaling_cur_freq", "3700000\n");
  root.put(cpu + "1/cpufreq/scaling_cur_freq", "2100000\n");
  root.put(cpu + "0/thermal_throttle/core_throttle_count", "3\n");
  root.put(cpu + "1/thermal_throttle/core_throttle_count", "4\n");
  root.put(cpu + "1/thermal_throttle/package_throttle_count", "10\n");
  CoreReading all, some;
  read_sensors(all, {0, 1, 2}, root.path);
  CHECK(all.clock_hz == 2.1e9);
  CHECK(all.throttled == 17);
  read_sensors(some, {0, 2}, root.path);
  CHECK(some.clock_hz == 3.7e9);
  CHECK(some.throttled == 3);
}

TEST_CASE("without cpufreq /proc/cpuinfo tells the clock, and what nobody tells is unknown") {
  const FakeRoot root;
  CoreReading nothing, told;
  read_sensors(nothing, {0, 1}, root.path);
  CHECK(std::isnan(nothing.clock_hz));
  CHECK_FALSE(nothing.throttled.has_value());
  root.put("proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2596.134\nprocessor\t: 1\ncpu MHz\t\t: 2500.5\n");
  read_sensors(told, {0, 1}, root.path);
  CHECK_THAT(told.clock_hz, Catch::Matchers::WithinRel(2500.5e6, 1e-12));
}

TEST_CASE("a lower clock and a busy sibling are told apart") {
  const CoreReading quiet = reading(1e-9, 0.1e-9);
  CoreWatch watch = watch_of({quiet, reading(2e-9, 0.2e-9), reading(1e-9, 0.16e-9), quiet});
  CHECK(watch.look().steady());
  const CoreState throttled = watch.look();
  CHECK_FALSE(throttled.steady());
  CHECK(throttled.clock_share == 0.5);
  CHECK(throttled.throughput_share == 0.5);
  CHECK_THAT(throttled.dependent_ops_per_s, Catch::Matchers::WithinRel(0.5e9, 1e-12));
  const CoreState shared = watch.look();
  CHECK_FALSE(shared.steady());
  CHECK(shared.clock_share == 1);
  CHECK_THAT(shared.throughput_share, Catch::Matchers::WithinRel(0.625, 1e-12));
  CHECK(watch.look().steady());
}

TEST_CASE("a run is held to the medians of five readings at its start, and says when these differ") {
  const CoreReading quick = reading(1e-9, 0.1e-9), slow = reading(3e-9, 0.3e-9);
  CoreWatch watch = watch_of({slow, quick, quick, slow, quick, quick, slow, quick});
  const CoreState worst = watch.start();
  CHECK_FALSE(worst.steady());
  CHECK_THAT(worst.clock_share, Catch::Matchers::WithinRel(1 / 3.0, 1e-12));
  CHECK(watch.look().steady());
  CHECK_FALSE(watch.look().steady());
  CHECK(watch.look().steady());
  CoreWatch calm = watch_of({quick, quick, quick, quick, quick});
  CHECK(calm.start().steady());
}

TEST_CASE("cores that become faster are as unsteady as those that become slower: the start was the bad moment") {
  CoreWatch watch = watch_of({reading(2e-9, 0.2e-9), reading(1e-9, 0.1e-9)});
  CHECK(watch.look().steady());
  const CoreState faster = watch.look();
  CHECK_FALSE(faster.steady());
  CHECK(faster.clock_share == 2);
  // The clock farther from the start counts.
  CHECK(worse_of(faster, {.clock_share = 0.6}).clock_share == 2);
  CHECK(worse_of(faster, {.clock_share = 0.4}).clock_share == 0.4);
}

TEST_CASE("less than a tenth is steady, more is not") {
  CoreWatch watch = watch_of({reading(1e-9, 0.1e-9), reading(1.09e-9, 0.092e-9), reading(1.12e-9, 0.1e-9)});
  watch.look();
  CHECK(watch.look().steady());
  CHECK_FALSE(watch.look().steady());
}

TEST_CASE(
    "throttling that the kernel counts is unsteady whatever the loops say, and counts of before the run are not") {
  const auto counted = [](int64_t events) { return reading(1e-9, 0.1e-9, events); };
  CoreWatch watch = watch_of({counted(40), counted(40), counted(42), counted(42)});
  CHECK(watch.look().steady());
  CHECK(watch.look().steady());
  const CoreState throttled = watch.look();
  CHECK_FALSE(throttled.steady());
  CHECK(throttled.throttle_events == 2);
  CHECK(watch.look().steady());
  CHECK(worse_of(throttled, {}).throttle_events == 2);
  CHECK_FALSE(worse_of({}, {}).throttle_events.has_value());
}

TEST_CASE("a reading has the time of both loops") {
  const CoreReading found = read_cores();
  CHECK(found.dependent_s > 0);
  CHECK(found.independent_s > 0);
}

// Puts a reading and a busy loop on the two threads of one core. It is skipped without such a core: virtual machines
// often see cores of one thread each.
TEST_CASE("a busy sibling makes the loop of independent operations slower") {
  const int core = sched_getcpu(), sibling = sibling_of(core);
  if (sibling < 0) SKIP("no core here shows two threads");
  cpu_set_t old, one, other;
  REQUIRE(sched_getaffinity(0, sizeof old, &old) == 0);
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  CPU_ZERO(&other);
  CPU_SET(sibling, &other);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  CoreWatch watch;
  watch.start();
  std::atomic<bool> over = false;
  std::thread busy([&] {
    pthread_setaffinity_np(pthread_self(), sizeof other, &other);
    for (uint64_t a = 1, b = 2, c = 3, d = 4; !over; ++a, b += a, c ^= b, d += c)
      for (int i = 0; i < 1000; ++i) {
        a += 3, b += 5, c += 7, d += 9;
        asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
      }
  });
  CoreState state;
  for (int i = 0; i < 5; ++i) state = worse_of(state, watch.look());
  over = true;
  busy.join();
  sched_setaffinity(0, sizeof old, &old);
  CHECK_FALSE(state.steady());
  CHECK(state.throughput_share < state.clock_share);
}
