// How busy the machine is, and with what: counters of the operating system, of which differences between two moments
// say whether something stood in the way of what ran between them.
#pragma once

#include <cstdint>

namespace ecmv::backends::cpu {

// Everything in seconds of CPU time since boot or since the process began; NaN where the system does not tell.
struct HostLoad {
  double now_s = 0;      // the wall clock of the others
  double busy_s = 0;     // of all cores, whoever ran
  double stolen_s = 0;   // of all cores: a virtual machine's, that its host gave to others
  double own_s = 0;      // of this process
  double waiting_s = 0;  // that threads of this process were ready to run and did not
  int64_t involuntary_switches = 0;
};
// Reads /proc, a file for each thread of this process: call it outside timed work.
HostLoad read_host_load();

struct Disturbance {
  double other_cores = 0;    // cores that other programs kept busy
  double stolen_share = 0;   // of the machine's cores
  double waiting_share = 0;  // of the time: threads waited, all together
  int64_t involuntary_switches = 0;
  // Whether work on this CPU was held up: threads waited for more than a fiftieth of the time, or the host of a virtual
  // machine took as much. Both stayed below a thousandth on an idle 16-core Xeon.
  bool held_up() const { return waiting_share > 0.02 || stolen_share > 0.02; }
};
Disturbance between(const HostLoad& before, const HostLoad& after);

}  // namespace ecmv::backends::cpu
