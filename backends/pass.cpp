// See pass.h. The steps of a pass, layer by layer: enqueue the kernel (a whole chain once, for all layers), requantise
// where the kernel does not, and at the end download the last result.
#include "backends/pass.h"

#include <algorithm>
#include <cstring>

#include "backends/activations.h"

#include "backends/pass_place.h"
#include "backends/pass_plan.h"

namespace ecmv::backends {
namespace {

// Four of these bytes are a NaN.
constexpr int kPoisonFloat = 0xFF;
// As int32 beyond every sum of fewer than 125,000 products of bytes.
constexpr int kPoison32 = 0x85;
// Neither zeros nor a likely symbol, so that a table or an offset left in the scratch does not survive.
constexpr int kPoisonScratch = 0xA7;
constexpr int poison8(int round) { return round == 0 ? -128 : 127; }

int64_t matrix_bytes(const CompressedView& view) { return view.shape.elements() * datasets::element_bytes(view.type); }

template <typename T>
T* as(const std::unique_ptr<Buffer>& buffer) {
  return buffer == nullptr ? nullptr : reinterpret_cast<T*>(buffer->data());
}

// The codec's reference decoder as a kernel: one block, so one worker.
struct ReferenceDecode {
  const PassPlan* plan;
  const CompressedView* matrix;
  void operator()(void*, const DecodeArgs& args) const {
    plan->reference_decode(*matrix, {args.out, static_cast<size_t>(matrix_bytes(*matrix))});
  }
};

class StepPass final : public Pass {
 public:
  StepPass(Device& device, const PassPlan& plan)
      : plan_(plan), executor_(device.executor(plan.graph)), place_(*executor_) {
    if (plan.kernel == nullptr && plan.kernels.empty() && !executor_->runs_host_code())
      throw std::invalid_argument("The backend '" + executor_->device().backend +
                                  "' runs no reference decoders, and the codec has no kernel for it.");
    check_plan(plan);
    executor_->select();
    for (const std::vector<int8_t>& input : plan.inputs)
      inputs_.push_back(filled(std::as_bytes(std::span(input)), kVectorPaddingBytes, "the input vector"));
    layers_.reserve(plan.layers.size());  // steps point to bindings
    for (const UploadedMatrix* uploaded : plan.layers) add_layer(uploaded->view());
    if (plan.op == Op::decode)
      decoded_ = executor_->allocate(largest([](const Layer& layer) { return matrix_bytes(*layer.view); }),
                                     "the decoded matrix");
    for (size_t i = 0; i < layers_.size(); ++i) bind_layer(i);
    if (runs_chains() && plan.ranks != nullptr)
      throw Refused("A kernel that takes a whole chain at once leaves no place for an exchange between layers.");
    if (runs_chains() && plan.chained && !layers_.empty()) bind_chain();
    make_steps();
    make_marks();
    allocate_scratch();
  }

  double run() override {
    if (!layers_.empty()) decoded_bytes_ = matrix_bytes(*layers_.back().view);
    const double seconds = executor_->time(steps_);
    if (!fetch_.empty()) executor_->run(fetch_);
    return seconds;
  }
  bool has_parts() const override { return !runs_chains() || !plan_.chained; }
  void run_first(int layers) override {
    const auto count = static_cast<size_t>(layers);
    if (count == 0 || count > layers_.size() || !has_parts()) throw std::invalid_argument("A pass has no such layers.");
    decoded_bytes_ = matrix_bytes(*layers_[count - 1].view);
    executor_->run({steps_.data(), count == layers_.size() ? steps_.size() : first_step_[count]});
  }
  void mark_outputs(int round) override {
    executor_->enqueue(marks_[round]);
    if (host_.empty()) return;
    std::memset(host_.data(), plan_.op == Op::matmul ? kPoisonFloat : poison8(round), host_.size());
  }
  std::span<const std::byte> result() const override {
    if (plan_.op != Op::decode) return host_;
    if (!executor_->runs_host_code()) return {};
    return {decoded_->data(), static_cast<size_t>(decoded_bytes_)};
  }
  double run_share(Share share) override {
    return executor_->time(share == Share::exchange ? exchange_steps_ : product_steps_);
  }
  void run_layer(int layer) override {
    decoded_bytes_ = matrix_bytes(*layers_[layer].view);
    for (const auto& scratch : scratch_) scratch->fill(kPoisonScratch, scratch->size());
    place_.zero();
    executor_->run(layers_[layer].steps);
  }

  void set_input(int layer, std::span<const std::byte> bytes) override {
    const auto index = static_cast<size_t>(layer);
    if (plan_.op == Op::matvec && index < inputs_.size()) {
      keep(bytes, plan_.inputs[index]);
      inputs_[index]->write(bytes, 0);
    } else if (plan_.op == Op::matmul && index < layers_.size()) {
      keep(bytes, plan_.tokens[index]);
      const Activations kind = in_memory(index);
      const int64_t stride_bytes = token_stride(layers_[index].view->shape.cols, kind) * bytes_of(kind);
      for (int token = 0; token < plan_.batch; ++token)
        layers_[index].tokens->write(activations_of(own_token(plan_, index, token), kind), token * stride_bytes);
    } else {
      throw std::invalid_argument("Layer " + std::to_string(layer) + " of this pass has no input.");
    }
  }

  void poison_outputs(int round) override {
    place_.zero();
    if (decoded_ != nullptr) decoded_->fill(poison8(round), decoded_->size());
    for (Layer& layer : layers_) {
      if (plan_.op == Op::matmul) layer.y->fill(kPoisonFloat, layer.y->size());
      if (plan_.op != Op::matvec) continue;
      layer.y->fill(kPoison32, layer.y->size());
      layer.v->fill(poison8(round), layer.vector_rows);
    }
  }

  std::span<const int32_t> accumulators(int layer) override {
    return read<int32_t>(*layers_[layer].y, layers_[layer].view->shape.rows, copies_[0]);
  }
  std::span<const int8_t> outputs(int layer) override {
    return read<int8_t>(*layers_[layer].v, layers_[layer].vector_rows, copies_[1]);
  }
  std::span<const float> products(int layer) override {
    const Layer& one = layers_[layer];
    const std::span<const float> all =
        read<float>(*one.y, one.y->size() / static_cast<int64_t>(sizeof(float)), copies_[0]);
    return all.subspan(static_cast<size_t>(one.first_float), static_cast<size_t>(plan_.batch * one.view->shape.rows));
  }
  std::span<const std::byte> gathered(int layer) override {
    if (split_of(plan_, static_cast<size_t>(layer)) == Split::rows_kept) return {};
    return read<std::byte>(*layers_[layer].y, layers_[layer].y->size(), copies_[0]);
  }
  std::span<const int8_t> decoded() override { return read<int8_t>(*decoded_, decoded_bytes_, copies_[0]); }
  int64_t first_difference(const Buffer& expected) override {
    if (decoded_ == nullptr) return Pass::first_difference(expected);
    const int64_t common = std::min(decoded_bytes_, expected.size());
    const int64_t first = executor_->first_difference(decoded_->data(), expected.data(), common);
    return first < 0 && decoded_bytes_ != expected.size() ? common : first;
  }
  ProductRounding rounding(int layer) const override {
    ProductRounding rounding = layers_[layer].kernel.facts.rounding;
    if (scales_rows(static_cast<size_t>(layer))) ++rounding.more_roundings;
    // Every addition of two ranks' sums rounds once more.
    if (split_of(plan_, static_cast<size_t>(layer)) == Split::cols) rounding.more_roundings += plan_.ranks->count() - 1;
    return rounding;
  }

  std::string broken_guards() const override {
    for (size_t i = 0; i < layers_.size(); ++i)
      if (std::string broken = broken_outputs(layers_[i], i); !broken.empty()) return broken;
    if (std::string broken = broken_inputs(); !broken.empty()) return broken;
    if (std::string broken = place_.broken(); !broken.empty()) return broken;
    for (const auto& scratch : scratch_)
      if (!scratch->guards_intact())
        return any_unfused() ? "The kernel wrote outside its scratch or the tile it decodes to."
                             : "The kernel wrote outside its scratch.";
    if (decoded_ != nullptr && !decoded_->guards_intact()) return "The kernel wrote outside the decoded matrix.";
    for (const UploadedMatrix* layer : plan_.layers)
      if (std::string broken = layer->broken_guards(); !broken.empty()) return broken;
    return {};
  }

 private:
  struct Layer {
    const CompressedView* view = nullptr;
    int64_t vector_rows = 0, first_row = 0;  // of the vector, and of this rank in it
    // What ranks gather, [ranks + 1]: bytes of v, or of y, where every rank's products are [batch, its rows], each
    // aligned like a buffer of its own; this rank's first one.
    std::vector<int64_t> gathered = {};
    int64_t first_float = 0;
    const int8_t* x = nullptr;
    std::unique_ptr<Buffer> y,
        v;  // matvec: [rows] int32; [vector_rows] int8 and kVectorPaddingBytes zeros. matmul: y is [batch, rows] float,
            // of ranks that gather as `gathered` says
    std::unique_ptr<Buffer> tokens;  // matmul: [batch, token_stride(cols)] activations
    std::unique_ptr<Buffer> scales;  // matmul: of quantised elements, as they are stored
    BoundKernel decode, kernel;      // `decode` is what an unfused `kernel` decodes by
    std::vector<Step> steps;
  };

  static int8_t* own_rows(const Layer& layer) { return as<int8_t>(layer.v) + layer.first_row; }
  static float* own_products(const Layer& layer) { return as<float>(layer.y) + layer.first_float; }
  bool unfused(size_t layer) const {
    const Kernel* kernel = chosen_kernel(plan_, layer).kernel;
    return plan_.op != Op::decode && (kernel == nullptr || kernel->op == Op::decode);
  }
  bool any_unfused() const {
    for (size_t i = 0; i < layers_.size(); ++i)
      if (unfused(i)) return true;
    return false;
  }
  // What a layer's tokens are in memory.
  Activations in_memory(size_t layer) const { return unfused(layer) ? Activations::f32 : plan_.activations; }
  const datasets::Scales* scales_of(size_t layer) const {
    const bool has = plan_.op == Op::matmul && !plan_.weight_scales.empty() && !plan_.weight_scales[layer]->empty();
    return has ? plan_.weight_scales[layer] : nullptr;
  }
  // Whether a step of its own scales the layer's sums.
  bool scales_rows(size_t layer) const {
    const Kernel* kernel = chosen_kernel(plan_, layer).kernel;
    const bool in_kernel = kernel != nullptr && kernel->op == Op::matmul && kernel->group_cols != 0;
    return scales_of(layer) != nullptr && scales_of(layer)->one_a_row() && !in_kernel;
  }
  // Whether ranks gather what a layer gives.
  bool gathers(size_t layer) const { return plan_.ranks != nullptr && split_of(plan_, layer) == Split::rows_gathered; }
  bool runs_chains() const { return plan_.kernel != nullptr && plan_.kernel->whole_chain; }

  template <typename F>
  int64_t largest(F bytes) const {
    int64_t most = 0;
    for (const Layer& layer : layers_) most = std::max(most, bytes(layer));
    return most;
  }

  std::unique_ptr<Buffer> filled(std::span<const std::byte> bytes, int64_t zeros, const std::string& what) {
    auto buffer = executor_->allocate(static_cast<int64_t>(bytes.size()) + zeros, what);
    if (!bytes.empty()) buffer->write(bytes, 0);
    return buffer;
  }

  void add_layer(const CompressedView& view) {
    Layer layer;
    const size_t index = layers_.size();
    const int64_t rows = view.shape.rows;
    layer.view = &view;
    layer.vector_rows = vector_rows(plan_, index);
    if (plan_.ranks != nullptr) layer.first_row = plan_.parts[index][static_cast<size_t>(plan_.ranks->rank())];
    if (plan_.op == Op::matvec) {
      if (plan_.ranks != nullptr) layer.gathered = plan_.parts[index];
      layer.y = executor_->allocate(rows * static_cast<int64_t>(sizeof(int32_t)), "the accumulators y");
      layer.v = executor_->allocate(layer.vector_rows + kVectorPaddingBytes, "the output vector v");
      layer.x =
          plan_.chained && index > 0 ? as<int8_t>(layers_.back().v) : as<int8_t>(inputs_[plan_.chained ? 0 : index]);
    } else if (plan_.op == Op::matmul) {
      layer.tokens = filled(padded_tokens(own_tokens(plan_, index), view.shape.cols, plan_.batch, in_memory(index)), 0,
                            "the tokens");
      if (const datasets::Scales* scales = scales_of(index)) layer.scales = filled(scales->stored, 0, "the scales");
      int64_t bytes = plan_.batch * rows * static_cast<int64_t>(sizeof(float));
      if (gathers(index)) {
        layer.gathered = places_of_products(plan_, index);
        layer.first_float = layer.gathered[static_cast<size_t>(plan_.ranks->rank())] / 4;
        bytes = layer.gathered.back();
      }
      layer.y = executor_->allocate(bytes, "the products");
    }
    layers_.push_back(std::move(layer));
  }

  backends::Layer to_bind(size_t index) const {
    const Layer& layer = layers_[index];
    backends::Layer one{layer.view};
    if (scales_of(index) != nullptr && !scales_rows(index)) one.scales = {scales_of(index), layer.scales->data()};
    if (plan_.op != Op::matvec) return one;
    one.y = as<int32_t>(layer.y);
    one.v = own_rows(layer);
    one.scale = plan_.scales[index];
    return one;
  }

  // The kernel of layer `index`.
  BoundKernel bind(std::span<const backends::Layer> layers, size_t index) {
    const auto [kernel, policy] = chosen_kernel(plan_, index);
    if (kernel == nullptr)
      return BoundKernel(ReferenceDecode{&plan_, layers[0].matrix},
                         {.rows_per_block = std::max<int64_t>(1, layers[0].matrix->shape.rows)});
    const int batch = kernel->op == Op::matmul ? plan_.batch : 1;
    const Policy& chosen =
        policy == nullptr ? chosen_policy(*kernel, *layers[0].matrix, place_.device(), batch) : *policy;
    BoundKernel bound = kernel->bind(chosen, layers, batch, place_);
    if (plan_.graph && !bound.facts.capturable && !place_.device().emulated)
      throw Refused(
          "The kernel's launches cannot be captured in a graph; with launch: plain they are made one by one.");
    return bound;
  }

  void bind_layer(size_t index) {
    Layer& layer = layers_[index];
    const backends::Layer one = to_bind(index);
    place_.begin(1);
    BoundKernel bound = bind({&one, 1}, index);
    if (unfused(index)) {
      layer.decode = bound;
      bound =
          executor_->multiply_decoded(plan_.op, layer.decode, *layer.view, one.scales, plan_.activations, plan_.batch);
    }
    layer.kernel = bound;
    layer.steps = steps_of(layer, index);
  }

  void bind_chain() {
    std::vector<backends::Layer> all;
    for (size_t i = 0; i < layers_.size(); ++i) all.push_back(to_bind(i));
    place_.begin(all.size());
    chain_ = bind(all, 0);
  }

  std::vector<Step> steps_of(const Layer& layer, size_t index) const {
    const int64_t rows = layer.view->shape.rows;
    std::vector<Step> steps;
    Enqueue enqueue{&layer.kernel, rows};
    if (plan_.op == Op::decode) {
      enqueue.row_bytes = layer.view->shape.cols * datasets::element_bytes(layer.view->type);
      enqueue.args = DecodeArgs{.out = decoded_->data()};
    } else if (plan_.op == Op::matmul) {
      enqueue.args = MatmulArgs{.x = in_memory(index) == Activations::f32 ? as<float>(layer.tokens) : nullptr,
                                .x_bf16 = in_memory(index) == Activations::bf16 ? as<uint16_t>(layer.tokens) : nullptr,
                                .x_stride = token_stride(layer.view->shape.cols, in_memory(index)),
                                .y = own_products(layer),
                                .y_stride = rows};
    } else if (runs_chains()) {
      enqueue.args = ChainArgs{.x = layer.x};
    } else {
      enqueue.args =
          MatvecArgs{.x = layer.x, .y = as<int32_t>(layer.y), .v = own_rows(layer), .scale = plan_.scales[index]};
    }
    steps.push_back(enqueue);
    if (plan_.op == Op::matvec && !layer.kernel.facts.requantises)
      steps.push_back(Requantise{&layer.kernel, rows, as<int32_t>(layer.y), own_rows(layer), plan_.scales[index]});
    if (scales_rows(index))
      steps.push_back(ScaleRows{&layer.kernel, rows, plan_.batch, as<float>(layer.y), as<uint16_t>(layer.scales),
                                scales_of(index)->rows == 1});
    if (gathers(index))
      steps.push_back(Gather{plan_.ranks, (plan_.op == Op::matvec ? layer.v : layer.y)->data(), &layer.gathered});
    if (split_of(plan_, index) == Split::cols)
      steps.push_back(Reduce{plan_.ranks, own_products(layer), plan_.batch * rows});
    return steps;
  }

  void make_steps() {
    if (layers_.empty()) return;
    if (plan_.ranks != nullptr) steps_.push_back(Meet{plan_.ranks});
    if (runs_chains() && plan_.chained) {
      steps_.push_back(Enqueue{&chain_, layers_.front().view->shape.rows, 0, ChainArgs{.x = layers_.front().x}});
    } else {
      for (const Layer& layer : layers_) {
        first_step_.push_back(steps_.size());
        steps_.insert(steps_.end(), layer.steps.begin(), layer.steps.end());
      }
    }
    if (plan_.op == Op::decode) return;
    const Layer& last = layers_.back();
    const int64_t bytes = plan_.op == Op::matvec ? last.vector_rows
                                                 : plan_.batch * last.vector_rows * static_cast<int64_t>(sizeof(float));
    host_ = {executor_->allocate_host(bytes), static_cast<size_t>(bytes)};
    // A vector of bytes is what a chain ends in; the products of a batch stay on the device in any use of them (64 tokens
    // of 16384 rows took as long to copy as half a layer).
    if (plan_.op == Op::matvec) {
      steps_.push_back(Download{last.v->data(), host_.data(), bytes});
    } else if (!gathers(layers_.size() - 1)) {
      fetch_.push_back(Download{last.y->data(), host_.data(), bytes});
    } else {
      std::byte* to = host_.data();
      const std::vector<int64_t>& first_rows = plan_.parts.back();
      for (size_t rank = 0; rank + 1 < first_rows.size(); ++rank) {
        const int64_t part =
            plan_.batch * (first_rows[rank + 1] - first_rows[rank]) * static_cast<int64_t>(sizeof(float));
        fetch_.push_back(Download{last.y->data() + last.gathered[rank], to, part});
        to += part;
      }
    }
    if (plan_.ranks == nullptr) return;
    for (const Step& step : steps_) {
      const bool exchanges = std::holds_alternative<Gather>(step) || std::holds_alternative<Reduce>(step);
      if (exchanges || std::holds_alternative<Meet>(step)) exchange_steps_.push_back(step);
      if (!exchanges) product_steps_.push_back(step);
    }
  }

  void make_marks() {
    for (int round = 0; round < 2; ++round) {
      std::vector<Step>& marks = marks_[round];
      if (decoded_ != nullptr) marks.push_back(Fill{decoded_->data(), poison8(round), decoded_->size(), kMarkStride});
      for (const Layer& layer : layers_) {
        if (layer.y != nullptr)
          marks.push_back(Fill{layer.y->data(), plan_.op == Op::matmul ? kPoisonFloat : kPoison32, layer.y->size()});
        if (layer.v != nullptr) marks.push_back(Fill{layer.v->data(), poison8(round), layer.vector_rows});
      }
    }
  }

  // One of several workers that gets no rows needs no scratch.
  void allocate_scratch() {
    std::vector<std::byte*> places;
    for (int worker = 0; worker < executor_->workers(); ++worker) {
      int64_t bytes = worker == 0 ? chain_.facts.scratch_bytes : 0;
      for (const Layer& layer : layers_)
        if (executor_->workers() == 1 ||
            rows_of_worker(layer.view->shape.rows, layer.kernel.facts.rows_per_block, worker, executor_->workers())
                    .count() > 0)
          bytes = std::max(bytes, layer.kernel.facts.scratch_bytes);
      scratch_.push_back(executor_->allocate(bytes, "the scratch"));
      places.push_back(scratch_.back()->data());
    }
    executor_->set_scratch(places);
  }

  // Replaces what the plan has, which guards compare with.
  template <typename T>
  static void keep(std::span<const std::byte> bytes, std::vector<T>& in_plan) {
    if (bytes.size() != in_plan.size() * sizeof(T))
      throw std::invalid_argument("An input has as many bytes as that of the plan.");
    if (!bytes.empty()) std::memcpy(in_plan.data(), bytes.data(), bytes.size());
  }

  template <typename T>
  static std::span<const T> read(const Buffer& buffer, int64_t count, std::vector<std::byte>& copy) {
    const std::span<const std::byte> bytes = buffer.view(count * static_cast<int64_t>(sizeof(T)), copy);
    return {reinterpret_cast<const T*>(bytes.data()), static_cast<size_t>(count)};
  }

  // "" if the guards hold and nothing but zeros follows the first `used` bytes.
  static std::string broken_vector(const Buffer& vector, int64_t used) {
    if (!vector.guards_intact()) return "outside";
    std::vector<std::byte> padding(static_cast<size_t>(vector.size() - used));
    vector.read(padding, used);
    return std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{0}; })
               ? ""
               : "to the padding of";
  }

  std::string broken_outputs(const Layer& layer, size_t index) const {
    const std::string of_layer = " of layer " + std::to_string(index) + ".";
    if (layer.y != nullptr && !layer.y->guards_intact())
      return std::string("The kernel wrote outside the ") + (plan_.op == Op::matmul ? "products" : "accumulators") +
             of_layer;
    if (layer.v == nullptr) return {};
    const std::string where = broken_vector(*layer.v, layer.vector_rows);
    return where.empty() ? "" : "The kernel wrote " + where + " the output vector" + of_layer;
  }

  std::string broken_inputs() const {
    std::vector<std::byte> copy;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const std::span<const std::byte> expected = std::as_bytes(std::span(plan_.inputs[i]));
      const auto used = static_cast<int64_t>(expected.size());
      if (!broken_vector(*inputs_[i], used).empty() || !std::ranges::equal(inputs_[i]->view(used, copy), expected))
        return "The kernel wrote to the input vector or outside it.";
    }
    for (size_t i = 0; i < layers_.size() && plan_.op == Op::matmul; ++i) {
      const Buffer& tokens = *layers_[i].tokens;
      if (!tokens.guards_intact() ||
          !std::ranges::equal(
              tokens.view(tokens.size(), copy),
              padded_tokens(own_tokens(plan_, i), layers_[i].view->shape.cols, plan_.batch, in_memory(i))))
        return "The kernel wrote to the tokens of layer " + std::to_string(i) + ", past them or outside them.";
      if (layers_[i].scales == nullptr) continue;
      const Buffer& scales = *layers_[i].scales;
      if (!scales.guards_intact() || !std::ranges::equal(scales.view(scales.size(), copy), scales_of(i)->stored))
        return "The kernel wrote to the scales of layer " + std::to_string(i) + " or outside them.";
    }
    return {};
  }

  PassPlan plan_;
  std::unique_ptr<Executor> executor_;  // goes last: waits for what is still running
  std::vector<std::unique_ptr<Buffer>> inputs_, scratch_;
  std::unique_ptr<Buffer> decoded_;  // of decode
  std::vector<Layer> layers_;
  PassPlace place_;
  BoundKernel chain_;
  std::vector<Step> steps_, exchange_steps_, product_steps_;
  std::vector<Step> fetch_;         // after steps_, outside the clock
  std::vector<size_t> first_step_;  // of each layer in steps_
  std::vector<Step> marks_[2];      // by round
  std::span<std::byte> host_;       // where the last step puts the result
  int64_t decoded_bytes_ = 0;       // of the layer that ran last
  std::vector<std::byte> copies_[2];
};

}  // namespace

std::unique_ptr<Pass> prepare(Device& device, const PassPlan& plan) { return std::make_unique<StepPass>(device, plan); }

}  // namespace ecmv::backends
