// Runs a task as fixed chunks that threads share, so a chunk's result does not depend on the thread that computes it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace ecmv::datasets {

// Calls work(chunk) for every chunk 0 .. chunks - 1, on `threads` threads (0: as many as the machine has). `work` must
// not throw.
template <typename Work>
void for_each_chunk(int64_t chunks, int threads, const Work& work) {
  if (threads <= 0) threads = int(std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<int64_t> next{0};
  const auto take = [&] {
    for (int64_t chunk; (chunk = next.fetch_add(1)) < chunks;) work(chunk);
  };
  std::vector<std::jthread> helpers;
  try {
    for (int64_t i = 1; i < std::min<int64_t>(threads, chunks); ++i) helpers.emplace_back(take);
  } catch (const std::system_error&) {
    // If the machine starts fewer threads, those share all chunks.
  }
  take();
}

}  // namespace ecmv::datasets
