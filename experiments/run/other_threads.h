// CPU time of threads that a case does not have. Threads of a team that has just worked may wait for more work by
// spinning for about 10 ms, so of a sample of several passes the second half counts.
#pragma once

#include <cstdint>

namespace ecmv::experiments {

class OtherThreads {
 public:
  OtherThreads() = default;
  // `threads` of the case; 0: nobody asks.
  explicit OtherThreads(int threads) : threads_(threads) {}
  // Before each pass of a sample, and after the last one.
  void before_pass(int64_t number, int64_t passes);
  void after_sample();

  int threads() const { return threads_; }
  double seconds() const { return seconds_; }
  double of_seconds() const { return of_seconds_; }
  // Whether they worked for a twentieth of the time.
  bool worked() const { return seconds_ > 0.02 + 0.05 * of_seconds_; }

 private:
  struct Reading {
    double now = 0, process = 0, thread = 0;
  };
  static Reading read();
  int threads_ = 0;
  Reading begun_;
  bool counts_ = false, one_pass_ = false;
  double seconds_ = 0, of_seconds_ = 0;
};

}  // namespace ecmv::experiments
