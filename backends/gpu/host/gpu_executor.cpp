// See gpu_executor.h.
#include "backends/gpu/host/gpu_executor.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "backends/gpu/host/blas.h"
#include "backends/gpu/host/caller_stream.h"
#include "backends/gpu/host/device_kernels.h"
#include "backends/gpu/host/discovery.h"
#include "backends/gpu/host/gpu_buffer.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {
namespace {

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(int64_t bytes, const std::string& what, int index) : buffer_(bytes, what), index_(index) {}
  ~DeviceBuffer() override {
    try {
      activate(index_);
    } catch (const std::exception&) {
      // A lost device has nothing left to release, and the pass that ran on it has reported the loss.
    }
  }
  std::byte* data() const override { return buffer_.data(); }
  int64_t size() const override { return buffer_.size(); }
  void write(std::span<const std::byte> host, int64_t offset) override { of_device().write(host, offset); }
  void read(std::span<std::byte> host, int64_t offset) const override { of_device().read(host, offset); }
  void fill(int value, int64_t bytes) override { gpu::fill(of_device().data(), value, bytes); }
  std::span<const std::byte> view(int64_t bytes, std::vector<std::byte>& copy) const override {
    copy.resize(static_cast<size_t>(bytes));
    read(copy, 0);
    return copy;
  }
  bool guards_intact() const override { return of_device().guards_intact(); }

 private:
  const GpuBuffer& of_device() const {
    activate(index_);
    return buffer_;
  }
  GpuBuffer buffer_;
  int index_;
};

// Decodes the whole matrix to the scratch and multiplies it there, in two launches. The matrix lies past the decoder's
// own scratch, so a decoder that writes past the matrix hits the guard zone.
struct UnfusedProduct {
  const BoundKernel* decode;
  DenseMatrix matrix;
  int64_t matrix_offset;

  template <typename Args>
  DenseMatrix decoded(void* stream, const Args& args) const {
    DenseMatrix out = matrix;
    out.elements = args.scratch + matrix_offset;
    decode->enqueue(stream, DecodeArgs{args.rows, args.scratch + matrix_offset, args.scratch});
    return out;
  }
};
struct UnfusedMatvec : UnfusedProduct {
  void operator()(void* stream, const MatvecArgs& args) const { dense_product(decoded(stream, args), stream, args); }
};
struct UnfusedMatmul : UnfusedProduct {
  int batch;
  void operator()(void* stream, const MatmulArgs& args) const {
    dense_product(decoded(stream, args), stream, args, batch);
  }
};

// Decoded bf16 and tokens of bf16, multiplied by the platform's BLAS.
struct UnfusedBlas : UnfusedProduct {
  int64_t workspace_offset;
  int batch;
  void operator()(void* stream, const MatmulArgs& args) const {
    blas_product(reinterpret_cast<const uint16_t*>(decoded(stream, args).elements), matrix.shape, args.x_bf16,
                 args.x_stride, batch, args.y, {args.scratch + workspace_offset, stream}, args.y_bf16);
  }
};

// Elements with scales of groups of columns, in three launches. Decoded elements become float32 numbers in memory after
// them. They are exact, so the product rounds as any other. It writes and reads four more bytes an element.
struct UnfusedScaledMatmul : UnfusedProduct {
  GroupScales scales;
  int64_t numbers_offset;
  int batch;

  void operator()(void* stream, const MatmulArgs& args) const {
    DenseMatrix numbers = decoded(stream, args);
    scale_elements(numbers, scales, reinterpret_cast<float*>(args.scratch + numbers_offset), stream);
    numbers.elements = args.scratch + numbers_offset;
    numbers.type = datasets::ElementType::f32;
    dense_product(numbers, stream, args, batch);
  }
};

// Makes the device current before the members that need it are constructed.
int activated(int index) {
  activate(index);
  return index;
}

class GpuExecutor final : public Executor {
 public:
  GpuExecutor(const DeviceInfo& device, int index, bool graph)
      : device_(device), index_(activated(index)), graphs_(graph && Graph::kAvailable), stream_(device.wave_size) {}
  ~GpuExecutor() override {
    try {
      activate(index_);
      stream_.synchronize();
    } catch (const std::exception&) {
      // The run that caused the error has reported it.
    }
    for (std::byte* data : host_) release_host(data);
  }
  const DeviceInfo& device() const override { return device_; }
  int workers() const override { return 1; }
  std::unique_ptr<Buffer> allocate(int64_t bytes, const std::string& what) override {
    return make_buffer(bytes, what, index_);
  }
  std::byte* allocate_host(int64_t bytes) override {
    select();
    host_.push_back(gpu::allocate_host(std::max<int64_t>(1, bytes)));
    return host_.back();
  }
  bool runs_host_code() const override { return false; }
  void set_scratch(std::span<std::byte* const> scratch) override { scratch_ = scratch[0]; }
  void select() override { activate(index_); }

  BoundKernel multiply_decoded(Op op, const BoundKernel& decode, const CompressedView& matrix,
                               const GroupScales& scales, Activations activations, int batch) override {
    const UnfusedProduct product{&decode, dense_matrix(matrix, nullptr, device_, false),
                                 (decode.facts.scratch_bytes + 255) / 256 * 256};
    KernelFacts facts{
        .scratch_bytes = product.matrix_offset + matrix.shape.elements() * datasets::element_bytes(matrix.type),
        .requantises = true};
    if (scales.layout != nullptr) {
      const int64_t numbers_offset = (facts.scratch_bytes + 255) / 256 * 256;
      facts.scratch_bytes = numbers_offset + matrix.shape.elements() * static_cast<int64_t>(sizeof(float));
      return {UnfusedScaledMatmul{product, scales, numbers_offset, batch}, facts};
    }
    if (op == Op::matmul && decoded_activations(matrix, false, activations) == Activations::bf16) {
      const int64_t workspace_offset = (facts.scratch_bytes + 255) / 256 * 256;
      facts.scratch_bytes = workspace_offset + kBlasWorkspaceBytes;
      facts.rounding = blas_rounding(matrix.shape.cols);
      facts.takes_callers_tokens = facts.stores_bf16 = true;
      return {UnfusedBlas{product, workspace_offset, batch}, facts};
    }
    return op == Op::matvec ? BoundKernel(UnfusedMatvec{product}, facts)
                            : BoundKernel(UnfusedMatmul{product, batch}, facts);
  }

  int most_decoded_tokens() const override { return kMostTokens; }
  Activations decoded_activations(const CompressedView& matrix, bool scaled, Activations activations) const override {
    const bool bf16 = !scaled && activations == Activations::bf16 && matrix.type == datasets::ElementType::bf16 &&
                      matrix.shape.rows % 8 == 0 && matrix.shape.cols % 8 == 0 && matrix.shape.elements() > 0 &&
                      blas_missing().empty();
    return bf16 ? Activations::bf16 : Activations::f32;
  }

  void run(std::span<const Step> steps) override {
    select();
    carry_out(steps);
    stream_.synchronize();
  }

  // Ranks meet before the clock starts. The meeting takes long enough for the host to put all following work on the
  // stream, so that the timed work begins on all devices at once.
  double time(std::span<const Step> steps) override {
    select();
    const size_t meetings = !steps.empty() && std::holds_alternative<Meet>(steps.front()) ? 1 : 0;
    const std::span<const Step> meeting = steps.first(meetings);
    steps = steps.subspan(meetings);
    Graph *meeting_graph = graph_of(meeting), *graph = graph_of(steps);
    launch(meeting_graph, meeting);
    timer_.start(stream_);
    launch(graph, steps);
    timer_.stop(stream_);
    return timer_.seconds(stream_);
  }
  void enqueue(std::span<const Step> steps) override {
    select();
    launch(graph_of(steps), steps);
  }
  void enqueue_once(std::span<const Step> steps) override {
    select();
    carry_out(steps);
  }
  void enqueue_on(void* stream, std::span<const Step> steps) override {
    const DeviceForNow device(index_);
    caller_.run(stream_, stream, [&](void* on) {
      for (const Step& step : steps)
        if (const auto* product = std::get_if<Enqueue>(&step))
          carry_out(*product, on);
        else if (const auto* load = std::get_if<LoadTokens>(&step))
          load_tokens(*load, device_, on);
        else
          store_products(std::get<StoreProducts>(step), device_, on);
    });
  }
  std::string why_unusable(const std::byte* place, int64_t bytes, const std::string& what) override {
    const DeviceForNow device(index_);
    const std::string why = why_unusable_here(place, bytes, index_);
    return why.empty() ? "" : what + " " + why;
  }
  void wait() override {
    const DeviceForNow device(index_);
    wait_for_device();
  }
  int64_t first_difference(const std::byte* one, const std::byte* other, int64_t bytes) override {
    select();
    std::vector<int64_t> firsts(static_cast<size_t>(comparing_waves(device_)));
    const auto found = std::as_writable_bytes(std::span(firsts));
    if (differences_.data() == nullptr)
      differences_ = GpuBuffer(static_cast<int64_t>(found.size()), "where bytes differ");
    find_differences(one, other, bytes, differences_.as<int64_t>(), device_, stream_.opaque());
    stream_.synchronize();
    differences_.read(found);
    const int64_t first = *std::ranges::min_element(firsts);
    return first < bytes ? first : -1;
  }

 private:
  // Captured at the first call; null without graphs.
  Graph* graph_of(std::span<const Step> steps) {
    if (!graphs_ || steps.empty()) return nullptr;
    Graph& graph = captured_[{steps.data(), steps.size()}];
    if (!graph.captured()) {
      // Kernels are loaded at their first launch, which must not happen inside a capture.
      run(steps);
      graph.begin(stream_);
      try {
        carry_out(steps);
      } catch (...) {
        end_abandoned(graph);  // a stream under capture would do no other work
        captured_.erase({steps.data(), steps.size()});
        throw;
      }
      graph.end(stream_);
    }
    return &graph;
  }
  void end_abandoned(Graph& graph) {
    try {
      graph.end(stream_);
    } catch (const std::exception&) {
      // Why it was abandoned is what is told.
    }
  }
  void launch(Graph* graph, std::span<const Step> steps) {
    if (graph != nullptr)
      graph->launch(stream_);
    else
      carry_out(steps);
  }
  void carry_out(std::span<const Step> steps) {
    for (const Step& step : steps) std::visit([&](const auto& one) { carry_out(one); }, step);
  }
  void carry_out(const Enqueue& step) { carry_out(step, stream_.opaque()); }
  void carry_out(const Enqueue& step, void* stream) {
    std::visit(
        [&]<typename ArgsOfOp>(ArgsOfOp args) {
          args.scratch = scratch_;
          if constexpr (!std::is_same_v<ArgsOfOp, ChainArgs>) args.rows = {0, step.rows};
          step.kernel->enqueue(stream, args);
        },
        step.args);
  }
  void carry_out(const Requantise& step) {
    requantise_rows(step.y, step.rows, step.y, step.v, step.scale, stream_.opaque());
  }
  void carry_out(const ScaleRows& step) {
    scale_rows(step.y, step.rows, step.batch, step.scales, step.one_for_all, stream_.opaque());
  }
  void carry_out(const LoadTokens& step) { load_tokens(step, device_, stream_.opaque()); }
  void carry_out(const StoreProducts& step) { store_products(step, device_, stream_.opaque()); }
  void carry_out(const Download& step) { stream_.copy_out(step.to, step.from, step.bytes); }
  void carry_out(const Gather& step) { step.ranks->gather(stream_.opaque(), step.data, *step.offsets); }
  void carry_out(const Reduce& step) { step.ranks->reduce(stream_.opaque(), step.data, step.count); }
  void carry_out(const Meet& step) { step.ranks->meet(stream_.opaque()); }
  void carry_out(const Fill& step) {
    if (step.stride == 0) return stream_.fill(step.to, step.value, step.bytes, step.bytes, 1);
    const int64_t whole = step.bytes / step.stride, rest = std::min(kMarkBytes, step.bytes - whole * step.stride);
    stream_.fill(step.to, step.value, kMarkBytes, step.stride, whole);
    stream_.fill(step.to + whole * step.stride, step.value, rest, rest, 1);
  }

  const DeviceInfo& device_;
  int index_;
  bool graphs_;
  Stream stream_;
  Timer timer_;
  std::map<std::pair<const Step*, size_t>, Graph> captured_;  // by steps
  std::byte* scratch_ = nullptr;
  std::vector<std::byte*> host_;  // page-locked
  CallerStream caller_;
  GpuBuffer differences_;  // a difference for each comparing wave, allocated at the first comparison
};

}  // namespace

std::unique_ptr<Executor> make_executor(const DeviceInfo& device, int index, bool graph) {
  return std::make_unique<GpuExecutor>(device, index, graph);
}

std::unique_ptr<Buffer> make_buffer(int64_t bytes, const std::string& what, int index) {
  activate(index);
  return std::make_unique<DeviceBuffer>(bytes, what, index);
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
