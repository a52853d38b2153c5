// Team: threads that run one function together, for work that is not timed (passes use a crew, crew.h). Only this file
// knows OpenMP, so codecs and passes stay free of pragmas.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ecmv::backends::cpu {

class Team {
 public:
  // threads >= 1.
  explicit Team(int threads) : threads_(threads) {}
  // Runs body(thread, threads) on every thread, 0 <= thread < threads, and returns when all have ended. `threads` is
  // the number asked for, or less where OpenMP grants less (OMP_THREAD_LIMIT, a parallel region around this one).
  // Rethrows one of the exceptions that bodies throw.
  void run(const std::function<void(int thread, int threads)>& body) const;
  // Calls body(number) for all numbers below `count`, in no order, with the threads that this thread may use: all of
  // them, in a body of a team one, or what use_threads_inside() says. In a process that was forked from one with teams,
  // whose threads are gone, it is the only one.
  static void for_each(int64_t count, const std::function<void(int64_t number)>& body);
  // Threads that the process may use, by its CPU affinity, OMP_NUM_THREADS, OMP_THREAD_LIMIT and the number that can be
  // created.
  static int available_threads();
  // Sets the number of threads that the process uses by default. OpenMP found fewer when it began, if a launcher had
  // bound the process to a core.
  static void use_threads(int threads);
  // In a body of a team: teams that it runs may have so many threads.
  static void use_threads_inside(int threads);
  // While it lives, for_each() of this thread takes its share of the threads: those of the process divided by the
  // shares that live. For calls that come from many threads at once.
  class Share {
   public:
    Share();
    Share(const Share&) = delete;
    ~Share();

   private:
    int before_;
  };
  // Why this many threads cannot live at once, as a sentence; "" if they can.
  static std::string why_not(int threads);
  // The cores that OMP_PLACES and OMP_PROC_BIND give to one of `threads` threads, as numbers; empty: any.
  static std::vector<int> cores_of(int thread, int threads);

 private:
  int threads_;
};

}  // namespace ecmv::backends::cpu
