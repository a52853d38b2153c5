// Steps, and the executor that carries them out: all that a backend does for a pass. There is one executor for CPUs and
// one for GPUs (CUDA, HIP and the emulator, with and without graphs). Both get the same steps (pass_steps.h).
//
// To add a kind of step: a struct here, one more case in the two executors (cpu/cpu_executor.cpp,
// gpu/host/gpu_executor.cpp; the compiler names them), and whoever makes the step. To add an op: CONTRIBUTING.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "backends/kernel.h"
#include "backends/ranks.h"
#include "datasets/scales.h"

namespace ecmv::backends {

struct OutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Starts a bound kernel. Where rows are split among threads, each gets its own range and its own scratch.
struct Enqueue {
  const BoundKernel* kernel = nullptr;
  int64_t rows = 0;
  int64_t row_bytes = 0;  // decode: from one row of the output to the next
  Args args = {};         // rows and scratch are filled in by the executor
};

// v[0, rows) = requantise(y, scale), for kernels that leave it to the backend. It comes right after its Enqueue, with
// the same rows and kernel, since the thread that computed a row requantises it.
struct Requantise {
  const BoundKernel* kernel = nullptr;
  int64_t rows = 0;
  int32_t* y = nullptr;
  int8_t* v = nullptr;
  float scale = 0;
};

// y[token, row] *= the row's scale, or the tensor's, in bf16, for products of quantised elements. It comes right after
// its Enqueue, like Requantise.
struct ScaleRows {
  const BoundKernel* kernel = nullptr;
  int64_t rows = 0;
  int batch = 0;
  float* y = nullptr;                // [batch, rows]
  const uint16_t* scales = nullptr;  // [rows], or one scale for all
  bool one_for_all = false;
};

// Brings tokens that a caller owns to where a kernel reads them, as its type of activations: bf16 becomes float32,
// never the reverse. Elements past `cols`, up to the stride, become zero.
struct LoadTokens {
  const std::byte* from = nullptr;  // [tokens, cols], aligned to its type
  Activations from_type = Activations::f32;
  int64_t from_stride = 0;  // in elements, as all strides here
  std::byte* to = nullptr;
  Activations to_type = Activations::f32;
  int64_t to_stride = 0;
  int64_t cols = 0;
  int tokens = 0;
};

// Brings products to memory that a caller owns: to[token, row] = y[token, row] + bias[row], added in float32 and then
// rounded to the nearest number of the type. It comes right after its Enqueue, like Requantise.
struct StoreProducts {
  const BoundKernel* kernel = nullptr;
  int64_t rows = 0;
  int tokens = 0;
  const float* y = nullptr;         // [tokens, rows]
  const std::byte* bias = nullptr;  // [rows] of the type; null: none
  Activations type = Activations::f32;
  std::byte* to = nullptr;
  int64_t to_stride = 0;
};

// Copies results to the host once all steps before it are done.
struct Download {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  // host memory of Executor::allocate_host
  int64_t bytes = 0;
};

// Overwrites memory before a timed pass, so that an earlier pass's results do not pass for this one's: [to, to +
// bytes), or, where `stride` > 0, the first kMarkBytes of every stride bytes of it. `worker`: this one alone fills,
// since the memory is in its cache; -1: all of them. `shift`: where the host's memory is marked, marks are what lies so
// many bytes after them, or before them at the end, as far as there is such a place. A kernel that reads its output
// then cannot tell them.
struct Fill {
  std::byte* to = nullptr;
  int value = 0;
  int64_t bytes = 0;
  int64_t stride = 0;
  int worker = -1;
  int64_t shift = 0;
};
inline constexpr int64_t kMarkBytes = 64;

// Gathers a vector: each rank of a product (ranks.h) has computed a part, and all get all of it.
struct Gather {
  Ranks* ranks = nullptr;
  std::byte* data = nullptr;
  const std::vector<int64_t>* offsets = nullptr;  // bytes, [ranks + 1]; outlives the step
};

// Gives all of these ranks the sums of these numbers over the ranks.
struct Reduce {
  Ranks* ranks = nullptr;
  float* data = nullptr;
  int64_t count = 0;
};

// Waits until all ranks are here. The clock of a timed run starts after it.
struct Meet {
  Ranks* ranks = nullptr;
};

using Step =
    std::variant<Enqueue, Requantise, ScaleRows, LoadTokens, StoreProducts, Download, Fill, Gather, Reduce, Meet>;

// The rows of one of several workers: contiguous runs of whole blocks, whose lengths differ by one block at most.
inline Rows rows_of_worker(int64_t rows, int64_t rows_per_block, int worker, int workers) {
  const int64_t blocks = (rows + rows_per_block - 1) / rows_per_block;
  return {std::min(blocks * worker / workers * rows_per_block, rows),
          std::min(blocks * (worker + 1) / workers * rows_per_block, rows)};
}

// Memory of a backend between guard zones with a known pattern.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::byte* data() const = 0;  // of the backend; aligned to 64 bytes, on GPUs 256
  virtual int64_t size() const = 0;
  virtual void write(std::span<const std::byte> host, int64_t offset) = 0;
  virtual void read(std::span<std::byte> host, int64_t offset) const = 0;
  virtual void fill(int value, int64_t bytes) = 0;  // the first `bytes` bytes
  // The first `bytes` bytes for the host to read: in place, or in `copy` for memory of a device.
  virtual std::span<const std::byte> view(int64_t bytes, std::vector<std::byte>& copy) const = 0;
  virtual bool guards_intact() const = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const DeviceInfo& device() const = 0;
  // The number of row ranges that run at once, each with its own scratch: the threads of a CPU, 1 on a GPU.
  virtual int workers() const = 0;
  // `bytes` >= 0, zero at first. `what` completes "The kernel wrote outside ...". Throws OutOfMemory.
  virtual std::unique_ptr<Buffer> allocate(int64_t bytes, const std::string& what) = 0;
  // Host memory that Download writes directly; lives as long as the executor.
  virtual std::byte* allocate_host(int64_t bytes) = 0;
  // Whether a codec's reference decoder, which is plain host code, can be a step.
  virtual bool runs_host_code() const = 0;
  // The unfused product of one layer: decodes to scratch through `decode`, which outlives the result, and multiplies
  // there. With `scales` (a layout), decoded elements are first multiplied by their groups' scales. There are `batch`
  // tokens, whose numbers are numbers of bf16 where `activations` are bf16.
  virtual BoundKernel multiply_decoded(Op op, const BoundKernel& decode, const CompressedView& matrix,
                                       const GroupScales& scales, Activations activations, int batch) = 0;
  // The activations that such a product reads for tokens of that kind, `scaled` where it applies scales of groups.
  virtual Activations decoded_activations(const CompressedView&, bool /* scaled */, Activations) const {
    return Activations::f32;
  }
  // The most tokens of such a product.
  virtual int most_decoded_tokens() const { return kMaxBatch; }
  // Gives every Enqueue from now on its worker's scratch, [workers()] places.
  virtual void set_scratch(std::span<std::byte* const> scratch) = 0;
  // Makes the device current (on `simd`: chooses the instruction set) for bind().
  virtual void select() = 0;
  // Runs the steps in order and returns when they are done.
  virtual void run(std::span<const Step> steps) = 0;
  // As run(); returns the seconds of everything by the device's own clock. A span that is timed again must hold the
  // same steps.
  virtual double time(std::span<const Step> steps) = 0;
  // As run(), without waiting. Later runs come after it. A span that is enqueued again must hold the same steps.
  virtual void enqueue(std::span<const Step> steps) = 0;
  // The same for steps that change.
  virtual void enqueue_once(std::span<const Step> steps) { enqueue(steps); }
  // For products on memory that a caller owns (LoadTokens, Enqueue, StoreProducts). Carries out these steps on the
  // caller's stream: it allocates nothing and does not wait, and the stream may be under capture. Calls on different
  // streams come one after the other, except where a stream is under capture. CPUs have no streams, nor has the
  // emulator: null, and the steps are done on return.
  virtual void enqueue_on(void* stream, std::span<const Step> steps) {
    if (stream != nullptr)
      throw std::invalid_argument("The backend '" + device().backend + "' has no streams: the stream is NULL there.");
    run(steps);
  }
  // "" if kernels of this device can use these bytes, else why not, as a sentence that `what` begins. Only some devices
  // know where memory ends.
  virtual std::string why_unusable(const std::byte* /*place*/, int64_t /*bytes*/, const std::string& /*what*/) {
    return {};
  }
  // Waits for all work of the device, on any stream.
  virtual void wait() {}
  // The first of `bytes` bytes that differs between two places in the backend's memory; -1: none. Waits.
  virtual int64_t first_difference(const std::byte* one, const std::byte* other, int64_t bytes) {
    const auto [at, there] = std::mismatch(one, one + bytes, other);
    return at == one + bytes ? -1 : at - one;
  }
};

}  // namespace ecmv::backends
