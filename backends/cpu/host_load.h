// How busy the machine is, and with what. The difference of the system's counters between two moments tells whether
// something disturbed the work between them.
#pragma once

#include <cstdint>

namespace ecmv::backends::cpu {

// Seconds of CPU time since boot or since the process began; NaN if unknown.
struct HostLoad {
  double now_s = 0;      // wall clock at the reading
  double busy_s = 0;     // all cores, all programs
  double stolen_s = 0;   // all cores: time of a virtual machine that its host gave to others
  double own_s = 0;      // this process
  double waiting_s = 0;  // threads of this process were ready to run and did not
  int64_t involuntary_switches = 0;
};
// Reads /proc, a file for each thread of this process: call it outside timed work.
HostLoad read_host_load();

struct Disturbance {
  double other_cores = 0;    // cores that other programs kept busy
  double stolen_share = 0;   // share of the machine's cores
  double waiting_share = 0;  // share of the time that threads waited, all together
  int64_t involuntary_switches = 0;
  // Whether work on this CPU was held up: threads waited for more than a fiftieth of the time, or the host of a virtual
  // machine took as much. Both stayed below a thousandth on an idle 16-core Xeon.
  bool held_up() const { return waiting_share > 0.02 || stolen_share > 0.02; }
};
Disturbance between(const HostLoad& before, const HostLoad& after);

}  // namespace ecmv::backends::cpu
