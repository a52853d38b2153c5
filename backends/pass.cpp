// See pass.h. A pass binds the kernels of its layers, makes their steps (pass_steps.h) in memory of its own
// (pass_memory.h), and has an executor carry them out.
#include "backends/pass.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>

#include "backends/pass/in_parts.h"
#include "backends/pass/pass_place.h"
#include "backends/pass/pass_plan.h"
#include "backends/pass/pass_steps.h"
#include "backends/pass/rounding_limits.h"

namespace ecmv::backends {
namespace {

// The codec's reference decoder as a kernel: one block, so one worker.
struct ReferenceDecode {
  const PassPlan* plan;
  const CompressedView* matrix;
  void operator()(void*, const DecodeArgs& args) const {
    plan->reference_decode(*matrix, {args.out, static_cast<size_t>(matrix_bytes(*matrix))});
  }
};

// Makes an executor for the plan and chooses the device for the bindings to come.
std::unique_ptr<Executor> executor_for(Device& device, const PassPlan& plan) {
  std::unique_ptr<Executor> executor = device.executor(plan.graph);
  if (plan.kernel == nullptr && plan.kernels.empty() && !executor->runs_host_code())
    throw std::invalid_argument("The backend '" + executor->device().backend +
                                "' runs no reference decoders, and the codec has no kernel for it.");
  check_plan(plan);
  executor->select();
  return executor;
}

// The bound kernels of a pass: one a layer, the decoders of unfused products, and one for all layers where a kernel
// takes a whole chain.
class PassKernels {
 public:
  PassKernels(const PassPlan& plan, const PassMemory& memory, Executor& executor)
      : plan_(plan), memory_(memory), executor_(executor), place_(executor) {
    const size_t layers = memory.layers().size();
    decoders_.resize(layers);  // products point to them
    kernels_.reserve(layers);  // steps point to them
    for (size_t i = 0; i < layers; ++i) bind_layer(i);
    if (takes_chains(plan) && plan.ranks != nullptr)
      throw Refused("A kernel that takes a whole chain at once leaves no place for an exchange between layers.");
    if (takes_chains(plan) && plan.chained && layers > 0) bind_chain();
  }

  const std::vector<BoundKernel>& layers() const { return kernels_; }
  const BoundKernel& chain() const { return chain_; }
  const PassPlace& place() const { return place_; }

  // [workers]. A worker that gets no rows needs no scratch.
  std::vector<int64_t> scratch_bytes() const {
    const int workers = executor_.workers();
    std::vector<int64_t> all;
    for (int worker = 0; worker < workers; ++worker) {
      int64_t bytes = worker == 0 ? chain_.facts.scratch_bytes : 0;
      for (size_t i = 0; i < kernels_.size(); ++i) {
        const KernelFacts& facts = kernels_[i].facts;
        if (workers == 1 || rows_of_worker(memory_[i].rows(), facts.rows_per_block, worker, workers).count() > 0)
          bytes = std::max(bytes, facts.scratch_bytes);
      }
      all.push_back(bytes);
    }
    return all;
  }

 private:
  Layer to_bind(size_t index) const {
    const LayerMemory& memory = memory_[index];
    Layer layer{memory.view};
    if (scales_of(plan_, index) != nullptr && !scales_rows(plan_, index))
      layer.scales = {scales_of(plan_, index), memory.scales->data()};
    if (plan_.op != Op::matvec) return layer;
    layer.y = memory.sums();
    layer.v = memory.own_rows();
    layer.scale = plan_.scales[index];
    return layer;
  }

  // Binds the kernel of layer `index` to these layers.
  BoundKernel bind(Layers layers, size_t index) {
    const auto [kernel, named] = chosen_kernel(plan_, index);
    if (kernel == nullptr)
      return BoundKernel(ReferenceDecode{&plan_, layers[0].matrix},
                         {.rows_per_block = std::max<int64_t>(1, layers[0].matrix->shape.rows)});
    const auto bind_tokens = [&, kernel = kernel, named = named](int tokens) {
      const Policy& policy =
          named == nullptr ? chosen_policy(*kernel, *layers[0].matrix, place_.device(), tokens) : *named;
      place_.begin(layers.size());
      return kernel->bind(policy, layers, tokens, place_);
    };
    BoundKernel bound = kernel->op == Op::matmul ? bind_in_parts(kernel->most_tokens, bind_tokens) : bind_tokens(1);
    if (kernel->op == Op::matmul)
      if (const std::string reason = why_too_loose(bound.facts.rounding, *layers[0].matrix, kernel->activations);
          !reason.empty())
        throw Refused(reason);
    if (plan_.graph && !bound.facts.capturable && !place_.device().emulated)
      throw Refused(
          "The kernel's launches cannot be captured in a graph; with launch: plain they are made one by one.");
    return bound;
  }

  // Binds for all tokens of the plan, in parts if they are more than `most`.
  template <typename BindTokens>
  BoundKernel bind_in_parts(int most, BindTokens bind_tokens) {
    const int batch = plan_.batch, rest = batch % most;
    if (batch <= most) return bind_tokens(batch);
    parts_.push_back(bind_tokens(most));
    const BoundKernel& whole = parts_.back();
    parts_.push_back(rest == 0 ? BoundKernel() : bind_tokens(rest));
    return in_parts(whole, parts_.back(), most, batch);
  }

  void bind_layer(size_t index) {
    const Layer layer = to_bind(index);
    BoundKernel bound = bind({&layer, 1}, index);
    if (unfused(plan_, index)) {
      decoders_[index] = bound;
      const auto multiply = [&](int tokens) {
        return executor_.multiply_decoded(plan_.op, decoders_[index], *layer.matrix, layer.scales, plan_.activations,
                                          tokens);
      };
      bound = plan_.op == Op::matmul ? bind_in_parts(executor_.most_decoded_tokens(), multiply) : multiply(1);
    }
    kernels_.push_back(bound);
  }

  void bind_chain() {
    std::vector<Layer> all;
    for (size_t i = 0; i < kernels_.size(); ++i) all.push_back(to_bind(i));
    chain_ = bind(all, 0);
  }

  const PassPlan& plan_;
  const PassMemory& memory_;
  Executor& executor_;
  PassPlace place_;
  std::vector<BoundKernel> decoders_, kernels_;
  std::deque<BoundKernel> parts_;  // bindings point to them
  BoundKernel chain_;
};

class StepPass final : public Pass {
 public:
  StepPass(Device& device, const PassPlan& plan)
      : plan_(plan),
        executor_(executor_for(device, plan_)),
        memory_(plan_, *executor_),
        kernels_(plan_, memory_, *executor_) {
    if (plan_.op != Op::decode && !memory_.layers().empty()) {
      const int64_t all = result_bytes(plan_, memory_), bytes = fetches_part() ? std::min(all, kMostFetched) : all;
      host_ = {executor_->allocate_host(bytes), static_cast<size_t>(bytes)};
    }
    steps_ = make_steps(plan_, memory_, kernels_.layers(), kernels_.chain(), host_);
    memory_.allocate_scratch(kernels_.scratch_bytes());
    // Other ranks may already write to theirs.
    for (std::vector<Step>& marks : steps_.marks)
      if (plan_.ranks == nullptr) std::ranges::copy(kernels_.place().zero_fills(), std::back_inserter(marks));
  }

  double run() override {
    if (!memory_.layers().empty()) decoded_bytes_ = matrix_bytes(*memory_.layers().back().view);
    const double seconds = executor_->time(steps_.all);
    if (!steps_.fetch.empty()) executor_->run(steps_.fetch);
    return seconds;
  }
  bool has_parts() const override { return !takes_chains(plan_) || !plan_.chained; }
  void run_first(int layers) override {
    const auto count = static_cast<size_t>(layers);
    if (count == 0 || count > memory_.layers().size() || !has_parts())
      throw std::invalid_argument("A pass has no such layers.");
    decoded_bytes_ = matrix_bytes(*memory_[count - 1].view);
    executor_->run({steps_.all.data(), count == memory_.layers().size() ? steps_.all.size() : steps_.first[count]});
  }
  double run_share(Share share) override {
    return executor_->time(share == Share::exchange ? steps_.exchange : steps_.product);
  }
  void run_layer(int layer) override {
    decoded_bytes_ = matrix_bytes(*at(layer).view);
    memory_.poison_scratch();
    kernels_.place().zero();
    executor_->run(steps_.of_layer[static_cast<size_t>(layer)]);
  }

  void mark_outputs(int round) override {
    std::vector<Step>& marks = steps_.marks[round % 2];
    if (memory_.decoded() != nullptr && !memory_.layers().empty())
      std::get<Fill>(marks.front()).shift = shift_of_marks(round, matrix_bytes(*memory_.layers().back().view));
    executor_->enqueue_once(memory_.moving_marks(round));
    executor_->enqueue(marks);
    if (host_.empty()) return;
    if (fetches_part()) {
      const Buffer& products = *memory_.layers().back().y;
      const int64_t places = (products.size() - std::ssize(host_)) / kMarkBytes + 1;
      std::get<Download>(steps_.fetch.front()).from = products.data() + round * int64_t{40503} % places * kMarkBytes;
    }
    std::memset(host_.data(), plan_.op == Op::matmul ? kPoisonFloat : poison8(round % 2), host_.size());
  }
  void set_input(int layer, std::span<const std::byte> bytes) override {
    memory_.set_input(static_cast<size_t>(layer), bytes);
  }
  void poison_outputs(int round) override {
    kernels_.place().zero();
    memory_.poison_outputs(round);
  }

  std::span<const std::byte> result() const override {
    if (plan_.op != Op::decode) return host_;
    if (!executor_->runs_host_code()) return {};
    return {memory_.decoded()->data(), static_cast<size_t>(decoded_bytes_)};
  }
  std::span<const int32_t> accumulators(int layer) override {
    return read<int32_t>(*at(layer).y, at(layer).rows(), copies_[0]);
  }
  std::span<const int8_t> outputs(int layer) override {
    return read<int8_t>(*at(layer).v, at(layer).vector_rows, copies_[1]);
  }
  std::span<const float> products(int layer) override {
    const LayerMemory& one = at(layer);
    return read<float>(*one.y, one.y->size() / static_cast<int64_t>(sizeof(float)), copies_[0])
        .subspan(static_cast<size_t>(one.first_float), static_cast<size_t>(plan_.batch * one.rows()));
  }
  std::span<const std::byte> gathered(int layer) override {
    if (plan_.op == Op::matvec) return std::as_bytes(outputs(layer));
    if (split_of(plan_, static_cast<size_t>(layer)) == Split::rows_kept) return {};
    return read<std::byte>(*at(layer).y, at(layer).y->size(), copies_[0]);
  }
  std::span<const int8_t> decoded() override { return read<int8_t>(*memory_.decoded(), decoded_bytes_, copies_[0]); }
  int64_t first_difference(const Buffer& expected) override {
    if (memory_.decoded() == nullptr) return Pass::first_difference(expected);
    const int64_t common = std::min(decoded_bytes_, expected.size());
    const int64_t first = executor_->first_difference(memory_.decoded()->data(), expected.data(), common);
    return first < 0 && decoded_bytes_ != expected.size() ? common : first;
  }

  ProductRounding rounding(int layer) const override {
    const auto index = static_cast<size_t>(layer);
    ProductRounding rounding = kernels_.layers()[index].facts.rounding;
    if (scales_rows(plan_, index)) ++rounding.more_roundings;
    // Every addition of two ranks' sums rounds once more.
    if (split_of(plan_, index) == Split::cols) rounding.more_roundings += plan_.ranks->count() - 1;
    return rounding;
  }
  std::string broken_guards() const override {
    const std::string broken = kernels_.place().broken();
    return broken.empty() ? memory_.broken() : broken;
  }

 private:
  // 64 tokens of 151936 rows are 39 MB, and their way to the host would be longer than the product.
  static constexpr int64_t kMostFetched = int64_t{1} << 20;
  bool fetches_part() const { return plan_.op == Op::matmul && plan_.ranks == nullptr; }
  const LayerMemory& at(int layer) const { return memory_[static_cast<size_t>(layer)]; }

  template <typename T>
  static std::span<const T> read(const Buffer& buffer, int64_t count, std::vector<std::byte>& copy) {
    const std::span<const std::byte> bytes = buffer.view(count * static_cast<int64_t>(sizeof(T)), copy);
    return {reinterpret_cast<const T*>(bytes.data()), static_cast<size_t>(count)};
  }

  PassPlan plan_;
  std::unique_ptr<Executor> executor_;  // its destructor waits for running work
  PassMemory memory_;
  PassKernels kernels_;
  PassSteps steps_;
  std::span<std::byte> host_;  // where the last step puts the result
  int64_t decoded_bytes_ = 0;  // of the layer that ran last
  std::vector<std::byte> copies_[2];
};

}  // namespace

std::unique_ptr<Pass> prepare(Device& device, const PassPlan& plan) {
  std::unique_ptr<Pass> own = device.prepare(plan);
  return own != nullptr ? std::move(own) : std::make_unique<StepPass>(device, plan);
}

}  // namespace ecmv::backends
