// See crew.h.
#include "backends/cpu/crew.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <system_error>

#include "backends/cpu/cpu_info.h"
#include "backends/cpu/team.h"
#include "hwy/cache_control.h"

namespace ecmv::backends::cpu {

namespace {

cpu_set_t set_of(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return set;
}

// Binds the calling thread to a core while it lives.
class Bound {
 public:
  explicit Bound(const std::vector<int>& cores) {
    if (cores.empty() || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    const cpu_set_t set = set_of({cores.front()});
    bound_ = sched_setaffinity(0, sizeof set, &set) == 0;
  }
  ~Bound() {
    if (bound_) sched_setaffinity(0, sizeof before_, &before_);
  }
  Bound(const Bound&) = delete;

 private:
  cpu_set_t before_;
  bool bound_ = false;
};

}  // namespace

std::shared_ptr<Crew> Crew::of(int threads, const std::vector<int>& cores) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::vector<int>>, std::weak_ptr<Crew>> crews;
  const std::scoped_lock lock(mutex);
  std::weak_ptr<Crew>& known = crews[{threads, cores}];
  std::shared_ptr<Crew> crew = known.lock();
  if (crew == nullptr) known = crew = std::make_shared<Crew>(threads, cores);
  return crew;
}

Crew::Crew(int threads, std::vector<int> cores)
    : threads_(threads), cores_(std::move(cores)), spins_(threads <= available_cores()) {
  try {
    for (int thread = 1; thread < threads; ++thread) others_.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error&) {
    const size_t given = others_.size() + 1;
    stop();
    throw std::runtime_error("The system gives " + std::to_string(given) + " of " + std::to_string(threads) +
                             " threads: limits of the user or of the control group (pids.max) are in the way.");
  }
  for (int thread = 1; thread < threads; ++thread) {
    const cpu_set_t set = set_of(cores_.empty() ? Team::cores_of(thread, threads)
                                                : std::vector<int>{cores_[static_cast<size_t>(thread)]});
    if (CPU_COUNT(&set) > 0)
      pthread_setaffinity_np(others_[static_cast<size_t>(thread - 1)].native_handle(), sizeof set, &set);
  }
}

Crew::~Crew() { stop(); }

void Crew::stop() {
  body_ = nullptr;
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  for (std::thread& other : others_) other.join();
  others_.clear();
}

void Crew::run(const std::function<void(int)>& body) {
  const Bound bound(cores_);
  if (threads_ == 1) return body(0);
  if (alone_) {
    for (int thread = 0; thread < threads_; ++thread) body(thread);
    return;
  }
  const std::scoped_lock lock(turn_);
  body_ = &body;
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  body(0);
  barrier();
}

void Crew::work(int thread) {
  for (uint32_t job = 0;; ++job) {
    wait_while(job_, job);
    if (body_ == nullptr) return;
    (*body_)(thread);
    barrier();
  }
}

void Crew::barrier() {
  if (threads_ == 1 || alone_) return;
  const uint32_t round = round_.load(std::memory_order_relaxed);  // no thread leaves the round before all are here
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < threads_) return wait_while(round_, round);
  arrived_.store(0, std::memory_order_relaxed);
  round_.store(round + 1, std::memory_order_release);
  round_.notify_all();
}

void Crew::wait_while(const std::atomic<uint32_t>& word, uint32_t value) const {
  if (spins_) {
    const auto start = std::chrono::steady_clock::now();
    do {
      for (int i = 0; i < 16; ++i) {
        if (word.load(std::memory_order_acquire) != value) return;
        hwy::Pause();
      }
    } while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(kSpinMicroseconds));
  }
  word.wait(value, std::memory_order_acquire);
}

int Crew::available_cores() {
  const int allowed = affinity_cores();
  return threads_within(cpu_quota_cores(), allowed > 0 ? allowed : Team::available_threads());
}

}  // namespace ecmv::backends::cpu
