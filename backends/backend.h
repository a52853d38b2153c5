// Backend: where and how kernels run and how their time is read. A Device holds uploaded matrices and opens executors.
// A Pass (pass.h) runs all layers once, as a list of steps that an executor carries out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backends/compressed_matrix.h"
#include "backends/executor.h"
#include "backends/kernel.h"

namespace ecmv::backends {

// A compressed matrix in the device's memory. Every section is aligned and lies between guard zones.
class UploadedMatrix {
 public:
  virtual ~UploadedMatrix() = default;
  virtual const CompressedView& view() const = 0;  // spans are device memory
  virtual std::string broken_guards() const = 0;   // "" while every guard zone is intact
  // "" while the sections hold what was uploaded. Reads all of them.
  virtual std::string changed_sections() const = 0;
  // Inverts the bytes `first`, `first` + `step`, ... of each payload section: kernels must give other results then.
  virtual void invert_payload(size_t first, size_t step) const;
};
// The same for bytes in the host's memory.
void invert_bytes(std::span<std::byte> bytes, size_t first, size_t step);

// For devices of one process: uploads the only part of a layer `copies` times, by make(part).
template <typename Make>
std::vector<std::unique_ptr<UploadedMatrix>> upload_whole(std::span<const CompressedMatrix> parts, size_t copies,
                                                          Make make) {
  if (parts.size() != 1) throw std::invalid_argument("A device of one process takes a layer in one part.");
  std::vector<std::unique_ptr<UploadedMatrix>> uploads;
  for (size_t copy = 0; copy < copies; ++copy) uploads.push_back(make(parts.front()));
  return uploads;
}

// For changed_sections().
inline uint64_t hash_of(std::span<const std::byte> section) {
  return datasets::content_hash({{1, static_cast<int64_t>(section.size())}, datasets::ElementType::i8, section});
}
inline std::string changed_section(std::string_view name) {
  return "The kernel wrote to the section '" + std::string(name) + "'.";
}

// The device's clocks and limits at one moment; 0 and "" if unknown.
struct DeviceState {
  double clock_hz = 0, memory_clock_hz = 0;
  double power_w = 0, temperature_c = 0;
  std::string throttle_reasons;  // "power cap, thermal"; "none" if it runs free
  int processes = -1;            // processes that compute on it, this one included once it does; -1: unknown
};

// A request to join devices of several processes, which will share products.
struct RanksRequest {
  Ranks& host;               // of these processes: exchanges in the host's memory
  std::string_view engine;   // "nccl", "rccl", "peer" (memory that devices map from each other)
  int64_t vector_bytes = 0;  // the largest vector that is gathered; for one that is reduced, that of all ranks together
};

class Pass;
struct PassPlan;

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // Devices that name the same memory can run each other's uploads ("host", "cuda:0").
  virtual std::string_view memory() const = 0;
  // Makes this the device that a kernel's `refuses` asks about. On `simd`, dynamic dispatch then chooses its
  // instruction set. Passes call it themselves.
  virtual void select() = 0;
  // Uploads a layer `copies` times. A device that ranks share by `split` gets a part for each of them; a device of one
  // process gets one part. Throws OutOfMemory.
  virtual std::vector<std::unique_ptr<UploadedMatrix>> upload_layer(std::span<const CompressedMatrix> parts,
                                                                    const LayerSplit& split, size_t copies) = 0;
  std::unique_ptr<UploadedMatrix> upload(const CompressedMatrix& whole) {
    return std::move(upload_layer({&whole, 1}, {}, 1).front());
  }
  // Copies bytes of the host to the device's memory, for Pass::first_difference(). Null where the device uses the
  // host's memory and needs no copy. Throws OutOfMemory, also where the copy would leave little for later allocations.
  virtual std::unique_ptr<Buffer> copy_of(std::span<const std::byte>) { return nullptr; }
  // prepare() of pass.h asks a device either for a pass of its own kind, or for an executor that carries out the steps
  // of one pass. `graph`: where the device can, time() captures the steps once and replays them with one call.
  virtual std::unique_ptr<Pass> prepare(const PassPlan& plan);  // null: it has an executor
  virtual std::unique_ptr<Executor> executor(bool /*graph*/) { return nullptr; }
  // Seconds of `repetitions` reads of `bytes` bytes of memory by all threads, each byte once.
  virtual std::vector<double> time_reads(int64_t bytes, int repetitions) = 0;
  virtual const SharedDevice* shared() const { return nullptr; }  // null: no other rank has a part of it
  // GPUs: lines that a kernel asked to persist in a cache become like others. Called before each sample, so that no
  // case is slower or faster for what another one left.
  virtual void reset_persisting_lines() {}
  // For the record, before and after measuring.
  virtual DeviceState state() { return {}; }
  virtual double joules() { return 0; }  // taken since its counter began; 0: unknown
  // GPUs: joins the processes of the request, so that they exchange vectors in device memory. All of them call it
  // together. Throws Refused with the same sentence on all of them.
  virtual std::unique_ptr<Ranks> join(const RanksRequest&) {
    throw Refused("A device of the host has no engine of its own: ranks exchange by what connects them.");
  }
  // GPUs: the link between this device and another of the backend's list; "" if unknown.
  virtual std::string link_to(int /*other*/) { return {}; }
  // GPUs: bytes of its memory that are free now, of shared devices on the fullest one; -1: unknown.
  virtual int64_t free_memory() { return -1; }
};

// Which device to open, and how.
struct DeviceRequest {
  int threads = 0;               // 0: all that the process may use
  std::string simd_target = {};  // "": the best or first; otherwise one that DeviceInfo::simd_target names
  int index = -1;                // GPUs: number in the backend's list; -1: the first usable one
  std::vector<int> cores = {};   // CPUs: one for each thread, to which it is bound; empty: as OMP_PLACES says
};

struct Backend {
  std::string_view id;  // "scalar", "simd", "cuda", ...
  std::string_view summary;
  // The devices that exist, without opening them; entries that cannot be used say why in DeviceInfo::unavailable.
  std::vector<DeviceInfo> (*devices)() = nullptr;
  // Throws std::invalid_argument with a sentence if there is no such device.
  std::unique_ptr<Device> (*open)(const DeviceRequest&) = nullptr;
};

// The CPU backends, then one entry for every GPU backend that this project knows. Where its plugin or driver is
// missing, its only device says so.
std::span<const Backend> all_backends();
const Backend* find_backend(std::string_view id);
// Why a backend has no device here; "" if it has one.
std::string why_unavailable(const Backend& backend);

// v = clamp(round_half_even(float(acc) * scale), -128, 127) in float32, the same on every platform.
int8_t requantise(int32_t accumulator, float scale);

}  // namespace ecmv::backends
