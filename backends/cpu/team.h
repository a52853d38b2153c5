// Team: threads that run one function together, for work that is not timed (passes have a crew, crew.h). The only place
// of the project that knows OpenMP, so that codecs and passes stay free of pragmas.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ecmv::backends::cpu {

class Team {
 public:
  // threads >= 1.
  explicit Team(int threads) : threads_(threads) {}
  // Runs body(thread, threads) on every thread, 0 <= thread < threads, and returns when all have ended. `threads` is
  // what was asked for, or less where OpenMP grants less (OMP_THREAD_LIMIT, a parallel region around this one). Throws
  // what a body throws, of several one.
  void run(const std::function<void(int thread, int threads)>& body) const;
  // Threads the process may use: its CPU affinity, OMP_NUM_THREADS, OMP_THREAD_LIMIT, and how many can be created.
  static int available_threads();
  // From now on the process uses that many threads where nobody asks for a number: what OpenMP found when it began
  // was less, if a launcher had bound the process to a core.
  static void use_threads(int threads);
  // Why so many threads cannot live at once, as a sentence; "" if they can.
  static std::string why_not(int threads);
  // The cores that OMP_PLACES and OMP_PROC_BIND give to one of `threads` threads, as numbers; empty: any.
  static std::vector<int> cores_of(int thread, int threads);

 private:
  int threads_;
};

}  // namespace ecmv::backends::cpu
