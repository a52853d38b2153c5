// Team: OpenMP's threads that run one function together, for work that nobody times: encoding, references, checks. The
// only place of the project that knows OpenMP, so that codecs stay free of pragmas. Timed passes have a Crew.
#pragma once

#include <functional>
#include <vector>

namespace ecmv::backends::cpu {

class Team {
 public:
  // threads >= 1.
  explicit Team(int threads) : threads_(threads) {}
  int threads() const { return threads_; }
  // Runs body(thread) on every thread, 0 <= thread < threads(), and returns when all have ended. body must not throw.
  // Throws std::runtime_error, without having run anything, where OpenMP grants fewer threads.
  void run(const std::function<void(int thread)>& body) const;
  // Threads the process may use (its CPU affinity, OMP_NUM_THREADS, OMP_THREAD_LIMIT).
  static int available_threads();
  // The cores that OMP_PLACES and OMP_PROC_BIND give to one of `threads` threads, as numbers; empty: any.
  static std::vector<int> cores_of(int thread, int threads);

 private:
  int threads_;
};

}  // namespace ecmv::backends::cpu
