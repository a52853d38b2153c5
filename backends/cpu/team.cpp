// Team, with OpenMP.
#include "backends/cpu/team.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

#include "backends/cpu/cpu_info.h"
#include "hwy/cache_control.h"

namespace ecmv::backends::cpu {

Team::Team(int threads) : threads_(threads), spins_(threads <= available_cores()) {}

void Team::run(const std::function<void(int)>& body) {
  // Without this the runtime may hand out fewer threads than asked for and rows would stay undone.
  omp_set_dynamic(0);
  int granted = threads_;
#pragma omp parallel num_threads(threads_)
  {
    // The same on every thread; a limit (OMP_THREAD_LIMIT, a parallel region around this one) still applies.
    if (omp_get_num_threads() == threads_) {
      body(omp_get_thread_num());
    } else if (omp_get_thread_num() == 0) {
      granted = omp_get_num_threads();
    }
  }
  if (granted != threads_)
    throw std::runtime_error("OpenMP grants " + std::to_string(granted) + " of " + std::to_string(threads_) +
                             " threads: OMP_THREAD_LIMIT, or a parallel region around this one, is in the way.");
}

void Team::barrier() {
  if (threads_ == 1) return;
  const uint32_t round = round_.load(std::memory_order_relaxed);  // no thread leaves the round before all are here
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    round_.notify_all();
    return;
  }
  if (spins_) {
    const auto start = std::chrono::steady_clock::now();
    do {
      for (int i = 0; i < 16; ++i) {
        if (round_.load(std::memory_order_acquire) != round) return;
        hwy::Pause();
      }
    } while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(kSpinMicroseconds));
  }
  round_.wait(round, std::memory_order_acquire);
}

int Team::available_threads() { return std::min(omp_get_max_threads(), omp_get_thread_limit()); }

int Team::available_cores() {
  cpu_set_t allowed;
  const int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : omp_get_num_procs();
  const double quota = cpu_quota_cores();
  return quota > 0 && quota < cores ? std::max(1, static_cast<int>(quota)) : cores;
}

}  // namespace ecmv::backends::cpu
