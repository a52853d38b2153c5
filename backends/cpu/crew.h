// Crew: the threads of timed passes. They stay from pass to pass, and a thread that waits for the others spins for
// kSpinMicroseconds and then sleeps; with more threads than cores it sleeps at once. OpenMP's threads spin for
// milliseconds, between passes too, which cannot be changed while a program runs: beside a compiler on both cores of a
// machine every pass took 22 ms, a turn of the scheduler, whatever it did (raw int8, 4 layers of 2048 x 2048: 0.76 G
// elements/s; with a crew 22 G, and 53 G when the machine was quiet).
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
  // A crew of that many threads, >= 1, the caller of run() among them; shared by all who ask for as many on these
  // cores. Thread i is bound to cores[i], the caller while it runs; without cores the others are bound as OMP_PLACES
  // and OMP_PROC_BIND say. Throws std::runtime_error where the system gives no more threads.
  static std::shared_ptr<Crew> of(int threads, const std::vector<int>& cores = {});
  explicit Crew(int threads, std::vector<int> cores = {});
  Crew(const Crew&) = delete;
  ~Crew();

  int threads() const { return threads_; }
  // Runs body(thread) on every thread, 0 <= thread < threads(), thread 0 being the caller's, and returns when all have
  // ended. body must not throw. Callers from several threads take turns.
  void run(const std::function<void(int thread)>& body);
  // Inside body: waits until every thread of the crew is here.
  void barrier();

  // Cores this process may use at once: its CPU affinity and the quota of its control group.
  static int available_cores();

 private:
  // Near to what falling asleep and being woken costs, tens of microseconds: spinning for as long makes waiting take at
  // most about twice the time of the better choice. Not tuned.
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
