// See host_load.h. Linux: /proc/stat counts in ticks of 10 ms, /proc/self/task/*/schedstat in nanoseconds.
#include "backends/cpu/host_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace ecmv::backends::cpu {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

void read_stat(HostLoad& load) {
  std::ifstream file("/proc/stat");
  std::string name;
  double user, nice, system, idle, waiting_for_io, irq, soft_irq, stolen;
  load.busy_s = load.stolen_s = kUnknown;
  if (!(file >> name >> user >> nice >> system >> idle >> waiting_for_io >> irq >> soft_irq >> stolen)) return;
  const auto tick = 1.0 / static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  load.busy_s = (user + nice + system + irq + soft_irq) * tick;
  load.stolen_s = stolen * tick;
}

// Counts living threads only: the waits of a thread that has ended are forgotten.
double waiting_seconds() {
  std::error_code failure;
  double nanoseconds = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", failure)) {
    std::ifstream file(task.path() / "schedstat");
    double ran, waited;
    if (file >> ran >> waited)
      nanoseconds += waited;
    else if (std::filesystem::exists(task.path(), failure))
      return kUnknown;  // a kernel without scheduling statistics
  }
  return failure ? kUnknown : nanoseconds * 1e-9;
}

}  // namespace

HostLoad read_host_load() {
  HostLoad load;
  load.now_s = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  read_stat(load);
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  load.own_s = seconds(own.ru_utime) + seconds(own.ru_stime);
  load.involuntary_switches = own.ru_nivcsw;
  load.waiting_s = waiting_seconds();
  return load;
}

Disturbance between(const HostLoad& before, const HostLoad& after) {
  Disturbance found;
  const double seconds = after.now_s - before.now_s;
  if (!(seconds > 0)) return found;
  const auto share = [&](double amount) { return std::isfinite(amount) ? std::max(0.0, amount / seconds) : 0; };
  found.other_cores = share(after.busy_s - before.busy_s - (after.own_s - before.own_s));
  found.stolen_share =
      share(after.stolen_s - before.stolen_s) / static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  found.waiting_share = share(after.waiting_s - before.waiting_s);
  found.involuntary_switches = after.involuntary_switches - before.involuntary_switches;
  return found;
}

}  // namespace ecmv::backends::cpu
