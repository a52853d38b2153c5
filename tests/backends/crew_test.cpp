// Claims about the threads of timed passes: however many there are, each runs once and waits for the others.
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <thread>
#include <vector>

#include "backends/cpu/crew.h"

using ecmv::backends::cpu::Crew;

TEST_CASE("every thread of a crew runs every body once, also with more threads than cores") {
  for (const int threads : {1, 2, 3, Crew::available_cores() + 3}) {
    Crew crew(threads);
    std::vector<int> runs(static_cast<size_t>(threads), 0);
    for (int body = 0; body < 200; ++body) crew.run([&](int thread) { ++runs[static_cast<size_t>(thread)]; });
    CHECK(runs == std::vector<int>(static_cast<size_t>(threads), 200));
  }
}

TEST_CASE("no thread passes a crew's barrier before all have reached it") {
  for (const int threads : {2, 3, Crew::available_cores() + 2}) {
    Crew crew(threads);
    std::atomic<int> here = 0;
    std::atomic<bool> early = false;
    crew.run([&](int) {
      for (int round = 1; round <= 300; ++round) {
        ++here;
        crew.barrier();
        if (here < round * threads) early = true;
        crew.barrier();
      }
    });
    CHECK_FALSE(early);
    CHECK(here == 300 * threads);
  }
}

TEST_CASE("callers from several threads take turns with one crew") {
  const std::shared_ptr<Crew> crew = Crew::of(2);
  CHECK(Crew::of(2) == crew);
  std::atomic<int> inside = 0, together = 0, runs = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        crew->run([&](int thread) {
          if (thread == 0 && ++inside > 1) ++together;
          crew->barrier();
          ++runs;
          crew->barrier();
          if (thread == 0) --inside;
        });
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(together == 0);
  CHECK(runs == 4 * 50 * 2);
}
