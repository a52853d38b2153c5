// The host side of CUDA, HIP and the emulator under one set of names: memory, copies, streams, events, graphs. All GPU
// code is compiled once for each backend into a namespace of its own (ECMV_GPU_NAMESPACE: cuda, hip or emulator). The
// build chooses it by defining ECMV_GPU_CUDA, ECMV_GPU_HIP or ECMV_GPU_EMULATOR; `backends::gpu` is an alias for it.
// All functions throw std::runtime_error with a sentence, and OutOfMemory where memory is short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "backends/backend.h"
#include "backends/gpu/launch_failure.h"

#if defined(ECMV_GPU_CUDA)
#include <cuda_runtime.h>
#define ECMV_GPU_NAMESPACE cuda
#define ECMV_GPU_API(name) cuda##name
#elif defined(ECMV_GPU_HIP)
#include <hip/hip_runtime.h>
#define ECMV_GPU_NAMESPACE hip
#define ECMV_GPU_API(name) hip##name
#elif defined(ECMV_GPU_EMULATOR)
#define ECMV_GPU_NAMESPACE emulator
#else
#error "One of ECMV_GPU_CUDA, ECMV_GPU_HIP and ECMV_GPU_EMULATOR must be defined."
#endif

namespace ecmv::backends {
namespace ECMV_GPU_NAMESPACE {}
namespace gpu = ECMV_GPU_NAMESPACE;
}  // namespace ecmv::backends

#if defined(ECMV_GPU_EMULATOR)
#include "backends/emulator/emulator_api.h"
#else

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Whether host code may read and write device memory: only in the emulator.
inline constexpr bool kOnHost = false;

using Status = ECMV_GPU_API(Error_t);
using StreamHandle = ECMV_GPU_API(Stream_t);
using EventHandle = ECMV_GPU_API(Event_t);
using GraphHandle = ECMV_GPU_API(GraphExec_t);

// `what` completes "... failed", e.g. "copying to the device".
inline void check(Status status, const char* what) {
  if (status == ECMV_GPU_API(Success)) return;
  (void)ECMV_GPU_API(GetLastError)();  // an error that does not stick is cleared
  const std::string sentence = std::string(what) + " failed: " + ECMV_GPU_API(GetErrorString)(status) + ".";
#if defined(ECMV_GPU_CUDA)
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory("The device has no room: " + sentence);
#else
  if (status == hipErrorOutOfMemory) throw OutOfMemory("The device has no room: " + sentence);
#endif
  throw std::runtime_error("On the device, " + sentence);
}

inline std::byte* allocate(int64_t bytes) {
  void* data = nullptr;
  check(ECMV_GPU_API(Malloc)(&data, static_cast<size_t>(bytes)),
        ("allocating " + std::to_string(bytes) + " bytes").c_str());
  return static_cast<std::byte*>(data);
}
inline void release(std::byte* data) { (void)ECMV_GPU_API(Free)(data); }

inline int64_t free_bytes() {
  size_t free = 0, all = 0;
  check(ECMV_GPU_API(MemGetInfo)(&free, &all), "asking for free memory");
  return static_cast<int64_t>(free);
}

// Page-locked host memory, which a device copies to and from directly.
inline std::byte* allocate_host(int64_t bytes) {
  void* data = nullptr;
#if defined(ECMV_GPU_CUDA)
  check(cudaMallocHost(&data, static_cast<size_t>(bytes)), "allocating page-locked memory");
#else
  check(hipHostMalloc(&data, static_cast<size_t>(bytes), 0), "allocating page-locked memory");
#endif
  return static_cast<std::byte*>(data);
}
inline void release_host(std::byte* data) {
#if defined(ECMV_GPU_CUDA)
  (void)cudaFreeHost(data);
#else
  (void)hipHostFree(data);
#endif
}

// Only the emulator uses it: it checks every access against these ranges.
inline void name_range(const std::byte*, int64_t, const std::string&) {}
inline void forget_range(const std::byte*) {}

// These wait until they are done, since kernels run on streams that do not wait for the default one.
inline void fill(std::byte* data, int value, int64_t bytes) {
  if (bytes <= 0) return;
  check(ECMV_GPU_API(Memset)(data, value, static_cast<size_t>(bytes)), "filling memory");
  check(ECMV_GPU_API(StreamSynchronize)(nullptr), "filling memory");
}
inline void copy_in(std::byte* device, const std::byte* host, int64_t bytes) {
  if (bytes <= 0) return;
  check(ECMV_GPU_API(Memcpy)(device, host, static_cast<size_t>(bytes), ECMV_GPU_API(MemcpyHostToDevice)),
        "copying to the device");
  check(ECMV_GPU_API(StreamSynchronize)(nullptr), "copying to the device");
}
inline void copy_out(std::byte* host, const std::byte* device, int64_t bytes) {
  if (bytes > 0)
    check(ECMV_GPU_API(Memcpy)(host, device, static_cast<size_t>(bytes), ECMV_GPU_API(MemcpyDeviceToHost)),
          "copying from the device");
}
// From one place of the device's memory to another.
inline void copy_within(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes <= 0) return;
  check(ECMV_GPU_API(Memcpy)(to, from, static_cast<size_t>(bytes), ECMV_GPU_API(MemcpyDeviceToDevice)),
        "copying on the device");
  check(ECMV_GPU_API(StreamSynchronize)(nullptr), "copying on the device");
}

class Stream {
 public:
  // Only the emulator needs the wave size: it has devices of both.
  explicit Stream(int /*wave_size*/) {
    check(ECMV_GPU_API(StreamCreateWithFlags)(&handle_, ECMV_GPU_API(StreamNonBlocking)), "creating a stream");
  }
  Stream(const Stream&) = delete;
  ~Stream() { (void)ECMV_GPU_API(StreamDestroy)(handle_); }
  void* opaque() const { return handle_; }
  StreamHandle handle() const { return handle_; }
  // Waits; throws the error of any launch before it.
  void synchronize() {
    const Status launched = ECMV_GPU_API(GetLastError)();
    throw_launch_failure();
    check(launched, "a launch");
    check(ECMV_GPU_API(StreamSynchronize)(handle_), "a kernel");
  }
  void copy_out(std::byte* host, const std::byte* device, int64_t bytes) {
    if (bytes > 0)
      check(ECMV_GPU_API(MemcpyAsync)(host, device, static_cast<size_t>(bytes), ECMV_GPU_API(MemcpyDeviceToHost),
                                      handle_),
            "copying from the device");
  }
  // Fills the first `width` bytes of each of `height` runs of `pitch` bytes.
  void fill(std::byte* data, int value, int64_t width, int64_t pitch, int64_t height) {
    if (width > 0 && height > 0)
      check(ECMV_GPU_API(Memset2DAsync)(data, static_cast<size_t>(pitch), value, static_cast<size_t>(width),
                                        static_cast<size_t>(height), handle_),
            "filling memory");
  }

 private:
  StreamHandle handle_ = nullptr;
};

// Measures seconds between two marks in a stream, by the device's clock.
class Timer {
 public:
  Timer() {
    check(ECMV_GPU_API(EventCreate)(&begin_), "creating an event");
    check(ECMV_GPU_API(EventCreate)(&end_), "creating an event");
  }
  Timer(const Timer&) = delete;
  ~Timer() {
    (void)ECMV_GPU_API(EventDestroy)(begin_);
    (void)ECMV_GPU_API(EventDestroy)(end_);
  }
  void start(Stream& stream) { check(ECMV_GPU_API(EventRecord)(begin_, stream.handle()), "recording an event"); }
  void stop(Stream& stream) { check(ECMV_GPU_API(EventRecord)(end_, stream.handle()), "recording an event"); }
  // Waits until stop() has passed.
  double seconds(Stream& stream) {
    stream.synchronize();
    float milliseconds = 0;
    check(ECMV_GPU_API(EventElapsedTime)(&milliseconds, begin_, end_), "reading an event");
    return milliseconds * 1e-3;
  }

 private:
  EventHandle begin_ = nullptr, end_ = nullptr;
};

// Records a stream's work between begin() and end() and replays it with one call.
class Graph {
 public:
  static constexpr bool kAvailable = true;
  Graph() = default;
  Graph(const Graph&) = delete;
  ~Graph() {
    if (executable_ != nullptr) (void)ECMV_GPU_API(GraphExecDestroy)(executable_);
  }
  bool captured() const { return executable_ != nullptr; }
  void begin(Stream& stream) {
    check(ECMV_GPU_API(StreamBeginCapture)(stream.handle(), ECMV_GPU_API(StreamCaptureModeThreadLocal)),
          "beginning a capture");
  }
  void end(Stream& stream) {
    ECMV_GPU_API(Graph_t) graph = nullptr;
    check(ECMV_GPU_API(StreamEndCapture)(stream.handle(), &graph), "capturing the chain");
#if defined(ECMV_GPU_CUDA)
    const Status status = cudaGraphInstantiate(&executable_, graph, 0);
#else
    const Status status = hipGraphInstantiate(&executable_, graph, nullptr, nullptr, 0);
#endif
    (void)ECMV_GPU_API(GraphDestroy)(graph);
    check(status, "instantiating the graph");
  }
  void launch(Stream& stream) { check(ECMV_GPU_API(GraphLaunch)(executable_, stream.handle()), "launching the graph"); }

 private:
  GraphHandle executable_ = nullptr;
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

#endif  // !ECMV_GPU_EMULATOR
