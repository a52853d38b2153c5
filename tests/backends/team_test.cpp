// Claims about teams of threads: the whole work is done whatever the runtime gives, and an exception
// arrives.
#include "backends/cpu/team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cfenv>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using ecmv::backends::cpu::Team;

namespace {

// Every task once, split as executors split rows.
bool does_all(const Team& team) {
  std::vector<std::atomic<int>> done(100);
  team.run([&](int thread, int threads) {
    for (size_t i = 100 * static_cast<size_t>(thread) / static_cast<size_t>(threads);
         i < 100 * static_cast<size_t>(thread + 1) / static_cast<size_t>(threads); ++i)
      ++done[i];
  });
  for (const auto& count : done)
    if (count != 1) return false;
  return true;
}

}  // namespace

TEST_CASE("threads of a team round to nearest and keep subnormal numbers, whatever the one that calls them does") {
  std::fenv_t before;
  std::fegetenv(&before);
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // as a library that is linked with -ffast-math does
#endif
  std::atomic<int> wrong = 0;
  const auto check = [&](int, int) {
    volatile float small = 1e-40f;
    if (std::fegetround() != FE_TONEAREST || small * 0.5f == 0) ++wrong;
  };
  Team(1).run(check);
  Team(3).run(check);
  const int rounding = std::fegetround();
  std::fesetenv(&before);
  CHECK(wrong == 0);
  CHECK(rounding == FE_UPWARD);  // the caller's own
}

TEST_CASE("a team does the whole work, also within another team, where it is smaller") {
  CHECK(does_all(Team(1)));
  CHECK(does_all(Team(3)));
  std::atomic<int> wrong = 0;
  Team(2).run([&](int, int threads) {
    if (threads != 2) ++wrong;
    if (!does_all(Team(3))) ++wrong;
  });
  CHECK(wrong == 0);
  CHECK(Team::why_not(Team::available_threads()).empty());
}

TEST_CASE("what a body throws arrives, once") {
  for (const int threads : {1, 4})
    CHECK_THROWS_MATCHES(Team(threads).run([](int, int) { throw std::out_of_range("here"); }), std::out_of_range,
                         MessageMatches(ContainsSubstring("here")));
  CHECK_THROWS_AS(Team(2).run([](int thread, int) {
    if (thread == 1) throw 5;
  }),
                  int);
  CHECK(does_all(Team(4)));
}

TEST_CASE("work of several threads at once shares the threads of the process") {
  const auto threads_of_for_each = [] {
    std::mutex mutex;
    std::set<std::thread::id> seen;
    Team::for_each(1000, [&](int64_t) {
      const std::scoped_lock lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    return static_cast<int>(seen.size());
  };
  const int all = Team::available_threads();
  const Team::Share mine;
  CHECK(Team::available_threads() == all);
  int others = all + 1;
  std::thread([&] {
    {
      const Team::Share second;
      CHECK(Team::available_threads() == std::max(1, all / 2));
      others = threads_of_for_each();
    }
    CHECK(Team::available_threads() == all);
  }).join();
  CHECK(others <= std::max(1, all / 2));
}
