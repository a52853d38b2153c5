// Pass: one run over all layers of a chain, or over all layers by themselves, with outputs in guarded memory of its
// own. It is the same on every backend: a pass binds the kernels, makes the steps and reads results back, and the
// backend's executor does the rest.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "datasets/scales.h"

namespace ecmv::backends {

struct ChosenKernel {
  const Kernel* kernel = nullptr;
  const Policy* policy = nullptr;  // of the kernel; null: its first
};

// Describes a pass. `op` may be matvec or matmul with a decode kernel: then blocks are decoded to scratch and
// multiplied there (an unfused product).
struct PassPlan : ChosenKernel {
  // matmul: a kernel for every layer, since the best one depends on shape and codec. Empty: the kernel above for all
  // layers.
  std::vector<ChosenKernel> kernels = {};
  // The codec's reference decoder (one thread, whole matrices), for codecs without a decode kernel for the backend.
  // Used if `kernel` is null.
  std::function<void(const CompressedView&, std::span<std::byte>)> reference_decode;
  Op op = Op::matvec;
  std::vector<const UploadedMatrix*> layers;
  // matvec. Chained: only inputs[0] is used, and layer k's requantised output is layer k+1's input. Otherwise each
  // layer has its own input.
  bool chained = true;
  std::vector<std::vector<int8_t>> inputs;
  std::vector<float> scales;  // [layers]: v = requantise(acc, scale)
  // matmul: tokens of every layer, [batch, cols] with the columns of all ranks; layers are not chained.
  int batch = 1;
  std::vector<std::vector<float>> tokens;
  // bf16: every token is a number of bf16. Fused kernels must have these activations and read bf16; an unfused product
  // multiplies the same numbers as float32.
  Activations activations = Activations::f32;
  // matmul of quantised matrices: the scales of every layer, which outlive the plan. Empty: the elements are the
  // numbers. Fused kernels take layers with one scale a row (datasets::Scales::one_a_row).
  std::vector<const datasets::Scales*> weight_scales = {};
  // Products by several ranks. `layers` are this rank's parts, split by splits[k] (none: by rows, gathered); parts[k]
  // [ranks + 1] are the rows or columns of layer k at which the ranks begin. Ranks gather requantised vectors, or, for
  // matmuls, every rank's products [batch, its rows], one after the other. Outlives the pass.
  Ranks* ranks = nullptr;
  std::vector<std::vector<int64_t>> parts;
  std::vector<Split> splits = {};
  bool graph = true;  // GPUs: run() replays the chain as one captured graph; false: plain launches
};

// How much of a decoded matrix each of two rows of marks overwrites: a 64th.
inline constexpr int64_t kMarkStride = 4096;
// Where the second row of marks of a decoded matrix of so many bytes begins: at one of 64 places, by `round` / 2.
constexpr int64_t first_mark(int round, int64_t bytes) {
  const int64_t places = std::clamp<int64_t>(bytes / kMarkBytes, 1, kMarkStride / kMarkBytes);
  return round / 2 % places * kMarkBytes;
}

// How far from the marks their bytes are taken from, another multiple of kMarkBytes by `round` / 128: never where the
// other row of marks is.
constexpr int64_t shift_of_marks(int round, int64_t bytes) {
  constexpr int64_t kPlaces = kMarkStride / kMarkBytes;
  int64_t place = 1 + round / 128 % (kPlaces - 3);
  for (const int64_t other = first_mark(round, bytes) / kMarkBytes; place == other || place == kPlaces - other;)
    ++place;
  return place * kMarkBytes;
}

// The two shares of a pass of several ranks, which can be timed apart.
enum class Share { exchange, product };

class Pass {
 public:
  virtual ~Pass() = default;
  // Runs all layers in order and copies the last layer's int8 vector (matvec) or floats (matmul) to the host. Returns
  // seconds by the device's own clock, for everything but the copy of floats.
  virtual double run() = 0;
  // A cheap start of every timed run: overwrites the outputs that the run must write, on the device and on the host; of
  // a decoded matrix only kMarkBytes of every kMarkStride, from its beginning on and from first_mark(round) on, in the
  // host's memory with other bytes of it. Scratch and memory that kernels want zero are filled as by poison_outputs().
  // Does not wait. `round`: its lowest bit is that below.
  virtual void mark_outputs(int round) = 0;
  // For passes by several ranks: seconds of the exchange alone, or of everything else. The outputs are no results.
  virtual double run_share(Share) { return 0; }
  // The part of the last run's result that the host can read at no cost. matvec: the last layer's int8 vector. matmul:
  // its floats; where these are more than a MiB and all on one device, a MiB of them, another one after each
  // mark_outputs(). decode: the bytes of the last layer on backends that use the host's memory, else nothing.
  virtual std::span<const std::byte> result() const = 0;
  // Runs the first layers alone, 1 <= layers, as run() does but without a clock. Only if the pass has parts: a kernel
  // may take a chain as a whole.
  virtual bool has_parts() const = 0;
  virtual void run_first(int layers) = 0;
  // Replaces the layer's input or tokens for the next run with as many bytes (float32 also where activations are bf16).
  // In chained passes only layer 0 has an input. Binds and allocates nothing.
  virtual void set_input(int layer, std::span<const std::byte> bytes) = 0;
  // The same for one rank alone, of a pass by ranks.
  virtual void set_input_of_rank(int /*rank*/, int layer, std::span<const std::byte> bytes) { set_input(layer, bytes); }
  // Runs one layer, untimed. Layers of chained passes must run in order.
  virtual void run_layer(int layer) = 0;
  // Overwrites all outputs: floats with NaN, int8 with -128 in round 0 and 127 in round 1, int32 with a value beyond
  // every sum. Scratch gets meaningless bytes, and memory that kernels want zero gets zeros. A result that may contain
  // -128 needs both rounds to show that each element was written.
  virtual void poison_outputs(int round) = 0;
  virtual std::span<const int32_t> accumulators(int layer) = 0;  // matvec: [rows], of ranks their own; host memory
  virtual std::span<const int8_t> outputs(int layer) = 0;        // matvec: [rows] after requantisation, of all ranks
  // matmul: [batch, rows] of the layer, of ranks their own rows, or all rows after `cols`; host memory.
  virtual std::span<const float> products(int) { return {}; }
  // By ranks: the vector or the products that all ranks must have alike after the layer, own ones included. Empty where
  // each rank keeps its own; host memory.
  virtual std::span<const std::byte> gathered(int) { return {}; }
  // By ranks: "", or which rank has other bytes than rank 0 where all must have the same after these layers.
  virtual std::string disagreement(std::span<const int> /*layers*/) { return {}; }
  virtual std::span<const int8_t> decoded() = 0;  // decode: the bytes of [rows, cols] of the layer that ran last
  // decode, on devices with memory of their own: the first of these bytes that differs from `expected`
  // (Device::copy_of), or -1. Does not copy them to the host.
  virtual int64_t first_difference(const Buffer& /*expected*/) {
    throw std::logic_error("This pass leaves no decoded matrix on a device.");
  }
  virtual ProductRounding rounding(int) const { return {}; }  // matmul: for the layer's kernel
  virtual std::string broken_guards() const = 0;              // "" while every guard zone is intact
};

// Binds and allocates: gives the device's own kind of pass, or one of steps for its executor. `device` and the plan's
// layers outlive the pass. Throws Refused where the layers cannot be bound together, OutOfMemory, and
// std::invalid_argument for a plan that makes no sense.
std::unique_ptr<Pass> prepare(Device& device, const PassPlan& plan);

}  // namespace ecmv::backends
