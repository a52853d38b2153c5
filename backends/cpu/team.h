// Team: a fixed number of threads that run one function together. The only place of the project that knows OpenMP, so
// that codecs and passes stay free of pragmas.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace ecmv::backends::cpu {

class Team {
 public:
  // threads >= 1.
  explicit Team(int threads);
  int threads() const { return threads_; }
  // Runs body(thread) on every thread, 0 <= thread < threads(), and returns when all have ended. body must not throw.
  // Throws std::runtime_error, without having run anything, where the system grants fewer threads.
  void run(const std::function<void(int thread)>& body);
  // Inside body: waits until every thread of the team is here. A thread that waits spins for kSpinMicroseconds and then
  // sleeps; with more threads than cores it sleeps at once. OpenMP's own barrier spins for milliseconds, and on a busy
  // machine the thread that is waited for then stands in the queue behind the spinning one.
  void barrier();
  // Threads the process may use (its CPU affinity, OMP_NUM_THREADS, OMP_THREAD_LIMIT).
  static int available_threads();
  // Cores this process may use at once: its CPU affinity and the quota of its control group.
  static int available_cores();

 private:
  // About what falling asleep and being woken costs: waiting takes at most twice the time of the better choice.
  static constexpr int kSpinMicroseconds = 50;

  int threads_;
  bool spins_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> round_{0};
};

}  // namespace ecmv::backends::cpu
