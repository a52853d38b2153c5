// Pass: one run over all layers of a chain, or over all layers by themselves, with its outputs in guarded memory of its
// own. The same on every backend: it binds the kernels, makes the steps, and reads results back; a backend's executor
// does the rest.
#pragma once

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
  const Policy* policy = nullptr;  // of the kernel; null: its first one
};

// What a pass does. `op` may be matvec or matmul with a decode kernel: then blocks are decoded to scratch and
// multiplied there (an unfused product).
struct PassPlan : ChosenKernel {
  // matmul: a kernel for every layer, where layers of other shapes or codecs run best with others; else that above.
  std::vector<ChosenKernel> kernels = {};
  // Where a codec has no decode kernel for the backend: its reference decoder (one thread, whole matrices). Used if
  // `kernel` is null.
  std::function<void(const CompressedView&, std::span<std::byte>)> reference_decode;
  Op op = Op::matvec;
  std::vector<const UploadedMatrix*> layers;
  // matvec. Chained: inputs[0] alone, layer k's requantised output is layer k+1's input; else one input a layer.
  bool chained = true;
  std::vector<std::vector<int8_t>> inputs;
  std::vector<float> scales;  // [layers]: v = requantise(acc, scale)
  // matmul: tokens of every layer, [batch, cols] with the columns of all ranks; layers are not chained.
  int batch = 1;
  std::vector<std::vector<float>> tokens;
  // bf16: every token is a number of bf16. Fused kernels are of this kind and read them as such; an unfused product
  // multiplies the same numbers as float32.
  Activations activations = Activations::f32;
  // matmul of quantised matrices: the scales of every layer, which outlive the plan; none: elements are the numbers.
  // Fused kernels take those with one a row (datasets::Scales::one_a_row).
  std::vector<const datasets::Scales*> weight_scales = {};
  // Products by several ranks: `layers` are this rank's part of each by splits[k] (none: by rows, gathered), and
  // parts[k] the rows or columns of layer k at which the ranks begin, [ranks + 1]. Ranks gather requantised vectors, of
  // matmuls every rank's products [batch, its rows], one after the other. Outlives the pass.
  Ranks* ranks = nullptr;
  std::vector<std::vector<int64_t>> parts;
  std::vector<Split> splits = {};
  bool graph = true;  // GPUs: run() replays the chain as one captured graph; false: plain launches
};

// How much of a decoded matrix mark_outputs overwrites: a 64th.
inline constexpr int64_t kMarkStride = 4096;

// What a pass of several ranks is made of, each for itself.
enum class Share { exchange, product };

class Pass {
 public:
  virtual ~Pass() = default;
  // Runs all layers in order and copies the last layer's int8 vector (matvec) or floats (matmul) to the host. Returns
  // seconds by the device's own clock, everything above included but the copy of floats.
  virtual double run() = 0;
  // What comes before every timed run, and costs little: overwrites what it must write, on the device and on the host,
  // of a decoded matrix the first kMarkBytes of every kMarkStride. Does not wait. `round` as below.
  virtual void mark_outputs(int round) = 0;
  // A pass by several ranks: seconds of the exchange alone, or of everything else; what they leave is no result.
  virtual double run_share(Share) { return 0; }
  // What the last run left where the host can look at no cost: matvec: the last layer's int8 vector; matmul: its
  // floats; decode: the bytes of the last layer on backends whose memory is the host's, else nothing.
  virtual std::span<const std::byte> result() const = 0;
  // The first layers alone, as run() does them but for the clock; 1 <= layers. Only where the pass has parts: a kernel
  // may take a chain as a whole.
  virtual bool has_parts() const = 0;
  virtual void run_first(int layers) = 0;
  // What the next run multiplies the layer with, instead of the plan's input or tokens, which were as many bytes
  // (float32 also where activations are bf16). In chained passes only layer 0 has an input. Binds and allocates
  // nothing.
  virtual void set_input(int layer, std::span<const std::byte> bytes) = 0;
  // Runs one layer, untimed. For chained passes the layers must be run in order.
  virtual void run_layer(int layer) = 0;
  // Overwrites all outputs: floats with NaN, int8 with -128 in round 0 and 127 in round 1, int32 with a value beyond
  // every sum; scratch with bytes that mean nothing, and what kernels want zero with zeros. A result that may contain
  // -128 needs both rounds to show that each element was written.
  virtual void poison_outputs(int round) = 0;
  virtual std::span<const int32_t> accumulators(int layer) = 0;  // matvec: [rows], of ranks its own; host memory
  virtual std::span<const int8_t> outputs(int layer) = 0;        // matvec: [rows] after requantisation, of ranks all
  // matmul: [batch, rows] of the layer, of ranks its own rows, or after `cols` all of them; host memory.
  virtual std::span<const float> products(int) { return {}; }
  // matmul by ranks: what all of them must have alike after the layer, own products included; nothing where each keeps
  // its own; host memory.
  virtual std::span<const std::byte> gathered(int) { return {}; }
  virtual std::span<const int8_t> decoded() = 0;  // decode: the bytes of [rows, cols] of the layer that ran last
  // decode, on devices with memory of their own: the first of these bytes that differs from `expected`
  // (Device::copy_of), -1: none. They stay where they are.
  virtual int64_t first_difference(const Buffer& /*expected*/) {
    throw std::logic_error("This pass leaves no decoded matrix on a device.");
  }
  virtual ProductRounding rounding(int) const { return {}; }  // matmul: of the layer's kernel
  virtual std::string broken_guards() const = 0;              // "" while every guard zone is intact
};

// The device's own pass, or one of steps for its executor: binds and allocates. `device` and the plan's layers outlive
// the pass. Throws Refused where the layers cannot be bound
// together, OutOfMemory, and std::invalid_argument for a plan that makes no sense.
std::unique_ptr<Pass> prepare(Device& device, const PassPlan& plan);

}  // namespace ecmv::backends
