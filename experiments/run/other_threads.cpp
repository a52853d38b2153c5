// See other_threads.h.
#include "experiments/run/other_threads.h"

#include <time.h>

#include <algorithm>

#include "backends/cpu/crew.h"

namespace ecmv::experiments {
namespace {

constexpr double kSpin_s = 0.02;  // how long an idle thread may spin, with a margin

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

OtherThreads::Reading OtherThreads::read() {
  return {seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_PROCESS_CPUTIME_ID), seconds_of(CLOCK_THREAD_CPUTIME_ID)};
}

void OtherThreads::before_pass(int64_t number, int64_t passes) {
  if (threads_ == 0 || number != passes / 2) return;
  counts_ = true;
  one_pass_ = passes == 1;
  begun_ = read();
}

// With one thread the one that takes samples works alone. Several threads have no more CPU time than there was time.
void OtherThreads::after_sample() {
  if (!counts_) return;
  counts_ = false;
  const Reading end = read();
  const double passed = end.now - begun_.now;
  if (passed < kSpin_s) return;
  const double own = threads_ == 1 ? end.thread - begun_.thread : threads_ * passed;
  const double spun = one_pass_ ? kSpin_s * (backends::cpu::Crew::available_cores() - 1) : 0;
  seconds_ += std::max(0.0, end.process - begun_.process - own - spun);
  of_seconds_ += passed;
}

}  // namespace ecmv::experiments
