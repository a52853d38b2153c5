// Team: a fixed number of threads that run one function together. The only place of the project that knows OpenMP, so
// that codecs and passes stay free of pragmas.
#pragma once

#include <functional>

namespace ecmv::backends::cpu {

class Team {
 public:
  // threads >= 1.
  explicit Team(int threads) : threads_(threads) {}
  int threads() const { return threads_; }
  // Runs body(thread) on every thread, 0 <= thread < threads(), and returns when all have ended. body must not throw.
  void run(const std::function<void(int thread)>& body) const;
  // Inside body: waits until every thread of the team is here.
  static void barrier();
  // Threads the process may use (its CPU affinity, OMP_NUM_THREADS).
  static int available_threads();

 private:
  int threads_;
};

}  // namespace ecmv::backends::cpu
