// Crew: the threads of timed passes. They stay from pass to pass. A thread that waits for the others spins for
// kSpinMicroseconds and then sleeps; with more threads than cores it sleeps at once. OpenMP's threads spin for
// milliseconds, between passes too, and a running program cannot change that. With a compiler on both cores of a
// machine, every pass then took 22 ms, a turn of the scheduler, whatever it did: raw int8 with 4 layers of 2048 x 2048
// ran at 0.76 G elements/s, with a crew at 22 G, and at 53 G on the quiet machine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ecmv::backends::cpu {

class Crew {
 public:
  // A crew of `threads` >= 1 threads, the caller of run() included. All who ask for the same number on the same cores
  // share it. Thread i is bound to cores[i], the caller only while it runs; without cores the others are bound as
  // OMP_PLACES and OMP_PROC_BIND say. Throws std::runtime_error where the system gives no more threads.
  static std::shared_ptr<Crew> of(int threads, const std::vector<int>& cores = {});
  explicit Crew(int threads, std::vector<int> cores = {});
  Crew(const Crew&) = delete;
  ~Crew();

  int threads() const { return threads_; }
  // Runs body(thread) on every thread, 0 <= thread < threads(), and returns when all have ended. Thread 0 is the
  // caller's. body must not throw. Callers from several threads take turns.
  void run(const std::function<void(int thread)>& body);
  // Inside body: waits until every thread of the crew is here.
  void barrier();

  // Cores this process may use at once: its CPU affinity and the quota of its control group.
  static int available_cores();
  // For a forked process, which has none of the threads: from now on run() calls body for one thread after the other,
  // and barriers do not wait.
  static void continue_alone() { alone_ = true; }

 private:
  static inline bool alone_ = false;
  // Near the cost of falling asleep and waking up, tens of microseconds: then waiting takes at most about twice as long
  // as with the better choice. Not tuned.
  static constexpr int kSpinMicroseconds = 50;
  void work(int thread);
  void wait_while(const std::atomic<uint32_t>& word, uint32_t value) const;
  void stop();

  const int threads_;
  const std::vector<int> cores_;
  const bool spins_;
  std::mutex turn_;
  const std::function<void(int)>* body_ = nullptr;  // null: the end
  alignas(64) std::atomic<uint32_t> job_{0};        // counts bodies
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> round_{0};  // counts barriers
  std::vector<std::thread> others_;
};

}  // namespace ecmv::backends::cpu
