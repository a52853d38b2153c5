// Team, with OpenMP.
#include "backends/cpu/team.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/cpu_info.h"
#include "backends/cpu/foreign/surroundings.h"

namespace ecmv::backends::cpu {
namespace {

// Threads that wait until they may end.
struct Waiting {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
};

void* wait_until_over(void* argument) {
  auto& waiting = *static_cast<Waiting*>(argument);
  std::unique_lock lock(waiting.mutex);
  waiting.changed.wait(lock, [&] { return waiting.over; });
  return nullptr;
}

// How many threads, at most `threads` and this one included, can live at once. The OpenMP runtime ends the process
// where it cannot create a thread, so we try it first. A number that once worked is not tried again.
int creatable_threads(int threads, int& error) {
  static std::atomic<int> proven = 1;
  if (threads <= proven) return threads;
  Waiting waiting;
  std::vector<pthread_t> created;
  while (static_cast<int>(created.size()) + 1 < threads) {
    pthread_t thread{};
    error = pthread_create(&thread, nullptr, wait_until_over, &waiting);
    if (error != 0) break;
    created.push_back(thread);
  }
  {
    const std::scoped_lock lock(waiting.mutex);
    waiting.over = true;
  }
  waiting.changed.notify_all();
  for (const pthread_t thread : created) pthread_join(thread, nullptr);
  const int possible = static_cast<int>(created.size()) + 1;
  int before = proven;
  while (possible > before && !proven.compare_exchange_weak(before, possible)) {
  }
  return possible;
}

// More threads than this only wait for each other, whatever OMP_NUM_THREADS says, and making them takes long.
int most_useful_threads() {
  constexpr int kForEachCore = 4, kAtLeast = 64;
  return std::max(kAtLeast, kForEachCore * static_cast<int>(std::thread::hardware_concurrency()));
}

// One call of Team::run. OpenMP's runtime lets threads wait in ways that the thread sanitizer does not see, so `open`
// and `ended` say again what comes before what.
class Region {
 public:
  explicit Region(const std::function<void(int, int)>& body) : body_(body) { open_.store(true); }
  void enter(int thread, int threads) {
    (void)open_.load();  // comes after what was before the region
    try {
      const DefaultFloats floats;
      body_(thread, threads);
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (fault_ == nullptr) fault_ = std::current_exception();
    }
    ++ended_;
  }
  void leave() const {
    if (ended_.load() > 0 && fault_ != nullptr) std::rethrow_exception(fault_);
  }

 private:
  const std::function<void(int, int)>& body_;
  std::atomic<bool> open_ = false;
  std::atomic<int> ended_ = 0;
  std::mutex mutex_;
  std::exception_ptr fault_;
};

// The region alone, whose own words about the runtime's variables are not watched.
[[gnu::no_sanitize_thread, gnu::noinline]] void run_region(Region& region, int threads) {
#pragma omp parallel num_threads(threads)
  region.enter(omp_get_thread_num(), omp_get_num_threads());
}

// libgomp waits for ever for threads that a fork did not copy.
std::atomic<bool> has_threads = false, is_alone = false;
void note_threads() {
  [[maybe_unused]] static const int once = pthread_atfork(nullptr, nullptr, [] {
    if (has_threads) is_alone = true;
  });
  has_threads = true;
}

}  // namespace

void Team::run(const std::function<void(int, int)>& body) const {
  Region region(body);
  if (threads_ == 1 || is_alone) {
    region.enter(0, 1);
  } else {
    note_threads();
    omp_set_dynamic(0);  // otherwise the runtime may give fewer threads than asked for
    run_region(region, threads_);
  }
  region.leave();
}

void Team::for_each(int64_t count, const std::function<void(int64_t)>& body) {
  std::atomic<int64_t> next = 0;
  const bool nested = omp_in_parallel() != 0 && omp_get_max_active_levels() <= omp_get_active_level();
  Team(nested ? 1 : static_cast<int>(std::clamp<int64_t>(count, 1, available_threads()))).run([&](int, int) {
    for (int64_t number = next++; number < count; number = next++) body(number);
  });
}

int Team::available_threads() {
  int error = 0;
  const int most = std::max(1, std::min({omp_get_max_threads(), omp_get_thread_limit(), most_useful_threads()}));
  static const double quota = cpu_quota_cores();
  return creatable_threads(threads_within(quota, most), error);
}

void Team::use_threads(int threads) { omp_set_num_threads(threads); }

void Team::use_threads_inside(int threads) {
  omp_set_num_threads(threads);
  omp_set_max_active_levels(omp_get_active_level() + (threads > 1 ? 1 : 0));
}

namespace {
std::atomic<int> shares = 0;
}

Team::Share::Share() : before_(omp_get_max_threads()) {
  omp_set_num_threads(std::max(1, available_threads() / ++shares));
}

Team::Share::~Share() {
  --shares;
  omp_set_num_threads(before_);
}

std::string Team::why_not(int threads) {
  int error = 0;
  const int possible = creatable_threads(threads, error);
  if (possible >= threads) return {};
  return "The system gives " + std::to_string(possible) + " of " + std::to_string(threads) +
         " threads: " + std::strerror(error) + ".";
}

std::vector<int> Team::cores_of(int thread, int threads) {
  const int places = omp_get_num_places();
  if (omp_get_proc_bind() == omp_proc_bind_false || places == 0) return {};
  // With enough places threads lie close together; OMP_PROC_BIND=spread spreads them over all places.
  const bool spread = omp_get_proc_bind() == omp_proc_bind_spread;
  const int place = threads > places || spread ? static_cast<int>(int64_t{thread} * places / threads) : thread;
  std::vector<int> cores(static_cast<size_t>(omp_get_place_num_procs(place)));
  omp_get_place_proc_ids(place, cores.data());
  return cores;
}

}  // namespace ecmv::backends::cpu
