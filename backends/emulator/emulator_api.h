// The emulator's half of backends/gpu/gpu_api.h: device memory is host memory, a stream runs everything at once, and a
// fault is thrown when the host synchronises, as on a real device.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <utility>

#include "backends/emulator/block_runner.h"
#include "backends/emulator/checked_memory.h"
#include "backends/executor.h"
#include "backends/gpu/launch_failure.h"

namespace ecmv::backends::emulator {

inline constexpr bool kOnHost = true;  // see gpu_api.h

inline std::byte* allocate(int64_t bytes) {
  void* data = std::aligned_alloc(256, static_cast<size_t>((bytes + 255) / 256 * 256));
  if (data == nullptr)
    throw OutOfMemory("The host has no room for " + std::to_string(bytes) + " bytes of emulated device memory.");
  return static_cast<std::byte*>(data);
}
inline void release(std::byte* data) { std::free(data); }
// Device memory is the host's; a shortage shows when an allocation fails.
inline int64_t free_bytes() { return std::numeric_limits<int64_t>::max(); }
inline std::byte* allocate_host(int64_t bytes) { return allocate(bytes); }
inline void release_host(std::byte* data) { std::free(data); }

inline void fill(std::byte* data, int value, int64_t bytes) {
  if (bytes > 0) std::memset(data, value, static_cast<size_t>(bytes));
}
inline void copy_in(std::byte* device, const std::byte* host, int64_t bytes) {
  if (bytes > 0) std::memcpy(device, host, static_cast<size_t>(bytes));
}
inline void copy_out(std::byte* host, const std::byte* device, int64_t bytes) { copy_in(host, device, bytes); }
inline void copy_within(std::byte* to, const std::byte* from, int64_t bytes) { copy_in(to, from, bytes); }

class Stream {
 public:
  explicit Stream(int wave_size) : wave_size_(wave_size) {}
  Stream(const Stream&) = delete;
  void* opaque() { return this; }
  void synchronize() {
    if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
    throw_launch_failure();
  }
  void copy_out(std::byte* host, const std::byte* device, int64_t bytes) {
    if (!fault_) emulator::copy_out(host, device, bytes);
  }
  void fill(std::byte* data, int value, int64_t width, int64_t pitch, int64_t height) {
    for (int64_t run = 0; run < height && !fault_; ++run) emulator::fill(data + run * pitch, value, width);
  }
  // Lanes run in ascending order in one launch and in descending order in the next.
  void run(Grid grid, const std::function<void()>& kernel) {
    if (fault_) return;
    grid.wave_size = wave_size_;
    grid.reversed = launches_++ % 2 == 1;
    try {
      run_grid(grid, kernel);
    } catch (...) {
      fault_ = std::current_exception();
    }
  }

 private:
  int wave_size_;
  int64_t launches_ = 0;
  std::exception_ptr fault_;
};

class Timer {
 public:
  void start(Stream&) { begin_ = std::chrono::steady_clock::now(); }
  void stop(Stream&) { end_ = std::chrono::steady_clock::now(); }
  double seconds(Stream& stream) {
    stream.synchronize();
    return std::chrono::duration<double>(end_ - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_, end_;
};

// Nothing is asynchronous here, so there is nothing to capture.
class Graph {
 public:
  static constexpr bool kAvailable = false;
  bool captured() const { return false; }
  void begin(Stream&) {}
  void end(Stream&) {}
  void launch(Stream&) {}
};

}  // namespace ecmv::backends::emulator
