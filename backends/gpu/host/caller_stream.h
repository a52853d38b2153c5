// What a product needs on a caller's stream and memory (Executor::enqueue_on): the device of the caller's thread stays
// his, and calls on different streams come one after the other. The emulator has neither streams nor such devices.
#pragma once

#include <string>

#include "backends/gpu/gpu_api.h"
#include "backends/gpu/host/discovery.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

#if defined(ECMV_GPU_EMULATOR)

class DeviceForNow {
 public:
  explicit DeviceForNow(int) {}
};

class CallerStream {
 public:
  template <typename Launches>
  void run(Stream& own, void* stream, Launches launches) {
    if (stream != nullptr)
      throw std::invalid_argument("The backend 'emulator' has no streams: the stream is NULL there.");
    launches(own.opaque());
    own.synchronize();
  }
};

inline void wait_for_device() {}

inline std::string why_unusable_here(const std::byte* place, int64_t bytes, int) {
  const MemoryRange* range = find_range(place);
  if (range == nullptr || place < range->begin) return "is no memory of the device.";
  if (place + bytes <= range->begin + range->bytes) return {};
  return "has " + std::to_string(range->begin + range->bytes - place) + " bytes of the device there, and " +
         std::to_string(bytes) + " are needed.";
}

#else

// Makes a device the thread's current one, as long as this lives.
class DeviceForNow {
 public:
  explicit DeviceForNow(int index) {
    check(ECMV_GPU_API(GetDevice)(&before_), "asking for the device");
    if (before_ == index) return;
    activate(index);
    changed_ = true;
  }
  DeviceForNow(const DeviceForNow&) = delete;
  ~DeviceForNow() {
    if (changed_) (void)ECMV_GPU_API(SetDevice)(before_);
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

class CallerStream {
 public:
  CallerStream() = default;
  CallerStream(const CallerStream&) = delete;
  ~CallerStream() {
    if (last_ != nullptr) (void)ECMV_GPU_API(EventDestroy)(last_);
  }

  // launches(stream), after what was launched before. During a capture nothing else is waited for or recorded: a graph
  // is replayed when the caller wants. Throws where a launch failed. An error that the thread had before stays his.
  template <typename Launches>
  void run(Stream&, void* stream, Launches launches) {
    const auto handle = static_cast<StreamHandle>(stream);
    const bool clean = ECMV_GPU_API(PeekAtLastError)() == ECMV_GPU_API(Success);
    ECMV_GPU_API(StreamCaptureStatus) capture = ECMV_GPU_API(StreamCaptureStatusNone);
    check(ECMV_GPU_API(StreamIsCapturing)(handle, &capture), "using the stream");
    const bool captured = capture != ECMV_GPU_API(StreamCaptureStatusNone);
    if (last_ == nullptr && !captured)
      check(ECMV_GPU_API(EventCreateWithFlags)(&last_, ECMV_GPU_API(EventDisableTiming)), "creating an event");
    if (!captured && recorded_ && on_ != stream)
      check(ECMV_GPU_API(StreamWaitEvent)(handle, last_, 0), "waiting for another stream");
    launches(stream);
    throw_launch_failure();
    if (clean) check(ECMV_GPU_API(GetLastError)(), "a launch");
    if (captured) return;
    check(ECMV_GPU_API(EventRecord)(last_, handle), "recording an event");
    recorded_ = true;
    on_ = stream;
  }

 private:
  EventHandle last_ = nullptr;  // after the last launches outside captures, on on_
  void* on_ = nullptr;
  bool recorded_ = false;
};

inline void wait_for_device() { check(ECMV_GPU_API(DeviceSynchronize)(), "waiting for the device"); }

// The end of a sentence, "" if kernels on this device can use it. The driver does not say where an array ends.
inline std::string why_unusable_here(const std::byte* place, int64_t, int index) {
#if defined(ECMV_GPU_CUDA)
  cudaPointerAttributes facts{};
  if (cudaPointerGetAttributes(&facts, place) != cudaSuccess) {
    (void)cudaGetLastError();
    return "is no memory of the device.";
  }
  if (facts.type != cudaMemoryTypeDevice && facts.type != cudaMemoryTypeManaged) return "is no memory of the device.";
#else
  hipPointerAttribute_t facts{};
  if (hipPointerGetAttributes(&facts, place) != hipSuccess) {
    (void)hipGetLastError();
    return "is no memory of the device.";
  }
#endif
  if (facts.device == index) return {};
  return "is memory of device " + std::to_string(facts.device) + ", and the product is bound on device " +
         std::to_string(index) + ".";
}

#endif

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
