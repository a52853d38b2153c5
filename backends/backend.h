// Backend: where and how kernels run and how their time is read. A Device holds uploaded matrices and prepares
// passes; a Pass is one run over all layers, with its outputs in guarded memory of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"

namespace ecmv::backends {

// A compressed matrix in the device's memory, every section aligned and between guard zones.
class UploadedMatrix {
 public:
  virtual ~UploadedMatrix() = default;
  virtual const codecs::CompressedView& view() const = 0;  // spans are device memory
  virtual std::string broken_guards() const = 0;           // "" while every guard zone is intact
};

// What a pass does. `op` may be matvec or matmul with a decode kernel: then blocks are decoded to scratch and multiplied there
// (an unfused product).
struct PassPlan {
  const Kernel* kernel = nullptr;
  // Where a codec has no decode kernel for the backend: its reference decoder (one thread, whole matrices). Used if
  // `kernel` is null.
  void (*reference_decode)(const codecs::CompressedView&, std::span<std::byte>) = nullptr;
  Op op = Op::matvec;
  int tuning = 0;
  std::vector<const UploadedMatrix*> layers;
  // matvec only. Chained: inputs[0] alone, layer k's requantised output is layer k+1's input; else one input a layer.
  bool chained = true;
  std::vector<std::vector<int8_t>> inputs;
  std::vector<float> scales;  // [layers]: v = requantise(acc, scale)
  // matmul only: tokens of every layer, [batch, cols]; layers are not chained.
  int batch = 1;
  std::vector<std::vector<float>> tokens;
  bool graph = true;          // GPUs: run() replays the chain as one captured graph; false: plain launches
};

class Pass {
 public:
  virtual ~Pass() = default;
  // Runs all layers in order and copies the last layer's int8 vector (matvec) or floats (matmul) to the host. Returns seconds by the
  // device's own clock, everything above included.
  virtual double run() = 0;
  // Runs one layer, untimed. For chained passes the layers must be run in order.
  virtual void run_layer(int layer) = 0;
  // Overwrites all outputs: floats with NaN, int8 with -128 in round 0 and 127 in round 1, int32 with a value beyond every sum. A result
  // that may contain -128 needs both rounds to show that each element was written.
  virtual void poison_outputs(int round) = 0;
  virtual std::span<const int32_t> accumulators(int layer) = 0;  // matvec: [rows], host memory
  virtual std::span<const int8_t> outputs(int layer) = 0;        // matvec: [rows] after requantisation
  virtual std::span<const float> products(int) { return {}; }    // matmul: [batch, rows] of the layer, host memory
  virtual std::span<const int8_t> decoded() = 0;  // decode: the bytes of [rows, cols] of the layer that ran last
  virtual std::string broken_guards() const = 0;  // "" while every guard zone is intact
};

struct OutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What clocks and limits a device was under at one moment; 0 and "" where the device does not tell.
struct DeviceState {
  double clock_hz = 0, memory_clock_hz = 0;
  double power_w = 0, temperature_c = 0;
  std::string throttle_reasons;  // "power cap, thermal"; "none" if it runs free
  int processes = -1;            // that compute on it, this one included once it does; -1: unknown
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // Devices that name the same memory can run each other's uploads ("host", "cuda:0").
  virtual std::string_view memory() const = 0;
  // Makes this device the one that a kernel's `refuses` speaks of (on `simd`: its instruction set becomes the one that
  // dynamic dispatch chooses). Passes do it for themselves.
  virtual void select() = 0;
  virtual std::unique_ptr<UploadedMatrix> upload(const codecs::CompressedMatrix&) = 0;  // throws OutOfMemory
  virtual std::unique_ptr<Pass> prepare(const PassPlan&) = 0;
  // Seconds of `repetitions` reads of `bytes` bytes of memory by all threads, each byte once.
  virtual std::vector<double> time_reads(int64_t bytes, int repetitions) = 0;
  // For the record, before and after measuring.
  virtual DeviceState state() { return {}; }
};

// How a backend is asked for a device.
struct DeviceRequest {
  int threads = 0;          // 0: all that the process may use
  std::string simd_target;  // "": the best or first; otherwise one that DeviceInfo::simd_target names
  int index = -1;           // GPUs: number in the backend's list; -1: the first that fits
};

struct Backend {
  std::string_view id;       // "scalar", "simd", "cuda", ...
  std::string_view summary;
  // What is there, without opening it; entries that cannot be used say why in DeviceInfo::unavailable.
  std::vector<DeviceInfo> (*devices)() = nullptr;
  // Throws std::invalid_argument with a sentence if there is no such device.
  std::unique_ptr<Device> (*open)(const DeviceRequest&) = nullptr;
};

// The CPU backends and, behind them, one entry for every GPU backend that this project knows; where its plugin or driver
// is missing, its only device says so.
std::span<const Backend> all_backends();
const Backend* find_backend(std::string_view id);

// v = clamp(round_half_even(float(acc) * scale), -128, 127) in float32, the same on every platform.
int8_t requantise(int32_t accumulator, float scale);

}  // namespace ecmv::backends
