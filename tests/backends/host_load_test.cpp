// Claims about the counters that tell a busy machine from a quiet one.
#include <catch2/catch_test_macros.hpp>

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

#include "backends/cpu/energy.h"
#include "backends/cpu/host_load.h"

using namespace ecmv::backends::cpu;

namespace {

void work_for(std::chrono::milliseconds time) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < time) {
  }
}

}  // namespace

TEST_CASE("counters that stood still are no disturbance, unknown ones neither") {
  HostLoad before, after;
  CHECK_FALSE(between(before, after).held_up());
  after.now_s = 1;
  before.stolen_s = after.stolen_s = before.waiting_s = after.waiting_s = before.busy_s = after.busy_s = NAN;
  const Disturbance unknown = between(before, after);
  CHECK(unknown.other_cores == 0);
  CHECK_FALSE(unknown.held_up());
}

TEST_CASE("waiting for a core and being robbed of one are told from the work of others elsewhere") {
  HostLoad before, after;
  after.now_s = 10;
  after.busy_s = 25, after.own_s = 15;
  CHECK(between(before, after).other_cores == 1);
  CHECK_FALSE(between(before, after).held_up());
  after.waiting_s = 0.3;
  CHECK(between(before, after).held_up());
  after.waiting_s = 0;
  after.stolen_s = 0.3 * static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  CHECK(between(before, after).held_up());
}

TEST_CASE("a program on the same core shows") {
  cpu_set_t old, one;
  REQUIRE(sched_getaffinity(0, sizeof old, &old) == 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const pid_t child = fork();  // inherits the core
  if (child == 0) {
    work_for(std::chrono::seconds(20));
    _exit(0);
  }
  work_for(std::chrono::milliseconds(50));
  const HostLoad before = read_host_load();
  work_for(std::chrono::milliseconds(600));
  const HostLoad after = read_host_load();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  sched_setaffinity(0, sizeof old, &old);
  if (!std::isfinite(after.waiting_s)) SKIP("this system keeps no scheduling statistics");
  const Disturbance found = between(before, after);
  CHECK(found.held_up());
  CHECK(found.waiting_share > 0.05);  // about one half
  CHECK(found.other_cores > 0.05);
}

TEST_CASE("the joules of all packages add up, and none are known where nothing is readable") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("ecmv_energy_" + std::to_string(::getpid()));
  CHECK(package_joules(folder) == 0);
  for (const int package : {0, 1}) {
    const auto place = folder / ("intel-rapl:" + std::to_string(package));
    std::filesystem::create_directories(place);
    std::ofstream(place / "energy_uj") << 1'500'000 * (package + 1) << "\n";
  }
  CHECK(package_joules(folder) == 4.5);
  std::filesystem::remove_all(folder);
}
