// See pass_memory.h.
#include "backends/pass/pass_memory.h"

#include <algorithm>
#include <cstring>

#include "backends/activations.h"
#include "backends/pass.h"

namespace ecmv::backends {
namespace {

// Replaces the plan's values, which guards compare with.
template <typename T>
void keep(std::span<const std::byte> bytes, std::vector<T>& in_plan) {
  if (bytes.size() != in_plan.size() * sizeof(T))
    throw std::invalid_argument("An input has as many bytes as that of the plan.");
  if (!bytes.empty()) std::memcpy(in_plan.data(), bytes.data(), bytes.size());
}

// "" if the guards hold and nothing but zeros follows the first `used` bytes.
std::string broken_vector(const Buffer& vector, int64_t used) {
  if (!vector.guards_intact()) return "outside";
  std::vector<std::byte> padding(static_cast<size_t>(vector.size() - used));
  vector.read(padding, used);
  return std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{0}; })
             ? ""
             : "to the padding of";
}

bool holds(const Buffer& buffer, std::span<const std::byte> expected) {
  std::vector<std::byte> copy;
  return buffer.guards_intact() && std::ranges::equal(buffer.view(buffer.size(), copy), expected);
}

}  // namespace

PassMemory::PassMemory(PassPlan& plan, Executor& executor) : plan_(plan), executor_(executor) {
  for (const std::vector<int8_t>& input : plan.inputs)
    inputs_.push_back(filled(std::as_bytes(std::span(input)), kVectorPaddingBytes, "the input vector"));
  int64_t largest = 0;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    add_layer(i, plan.layers[i]->view());
    largest = std::max(largest, matrix_bytes(*layers_.back().view));
  }
  if (plan.op == Op::decode) decoded_ = executor.allocate(largest, "the decoded matrix");
}

std::unique_ptr<Buffer> PassMemory::filled(std::span<const std::byte> bytes, int64_t zeros, const std::string& what) {
  auto buffer = executor_.allocate(static_cast<int64_t>(bytes.size()) + zeros, what);
  if (!bytes.empty()) buffer->write(bytes, 0);
  return buffer;
}

void PassMemory::add_layer(size_t index, const CompressedView& view) {
  LayerMemory layer;
  layer.view = &view;
  layer.vector_rows = vector_rows(plan_, index);
  if (plan_.ranks != nullptr) layer.first_row = plan_.parts[index][static_cast<size_t>(plan_.ranks->rank())];
  if (plan_.op == Op::matvec) add_vectors(layer, index);
  if (plan_.op == Op::matmul) add_products(layer, index);
  layers_.push_back(std::move(layer));
}

void PassMemory::add_vectors(LayerMemory& layer, size_t index) {
  if (plan_.ranks != nullptr) layer.gathered = plan_.parts[index];
  layer.y = executor_.allocate(layer.rows() * static_cast<int64_t>(sizeof(int32_t)), "the accumulators y");
  layer.v = executor_.allocate(layer.vector_rows + kVectorPaddingBytes, "the output vector v");
  const Buffer& x = plan_.chained && index > 0 ? *layers_.back().v : *inputs_[plan_.chained ? 0 : index];
  layer.x = reinterpret_cast<const int8_t*>(x.data());
}

void PassMemory::add_products(LayerMemory& layer, size_t index) {
  const bool scaled = scales_of(plan_, index) != nullptr && !scales_rows(plan_, index);
  layer.kind =
      unfused(plan_, index) ? executor_.decoded_activations(*layer.view, scaled, plan_.activations) : plan_.activations;
  layer.tokens =
      filled(padded_tokens(own_tokens(plan_, index), layer.view->shape.cols, plan_.batch, layer.kind), 0, "the tokens");
  if (const datasets::Scales* scales = scales_of(plan_, index)) layer.scales = filled(scales->stored, 0, "the scales");
  int64_t bytes = plan_.batch * layer.rows() * static_cast<int64_t>(sizeof(float));
  if (gathers(plan_, index)) {
    layer.gathered = places_of_products(plan_, index);
    layer.first_float = layer.gathered[static_cast<size_t>(plan_.ranks->rank())] / 4;
    bytes = layer.gathered.back();
  }
  layer.y = executor_.allocate(bytes, "the products");
}

void PassMemory::allocate_scratch(std::span<const int64_t> bytes) {
  std::vector<std::byte*> places;
  for (const int64_t size : bytes) {
    scratch_.push_back(executor_.allocate(size, "the scratch"));
    places.push_back(scratch_.back()->data());
  }
  executor_.set_scratch(places);
}

void PassMemory::set_input(size_t layer, std::span<const std::byte> bytes) {
  if (plan_.op == Op::matvec && layer < inputs_.size()) {
    keep(bytes, plan_.inputs[layer]);
    inputs_[layer]->write(bytes, 0);
  } else if (plan_.op == Op::matmul && layer < layers_.size()) {
    keep(bytes, plan_.tokens[layer]);
    const Activations kind = layers_[layer].kind;
    const int64_t stride_bytes = token_stride(layers_[layer].view->shape.cols, kind) * bytes_of(kind);
    for (int token = 0; token < plan_.batch; ++token)
      layers_[layer].tokens->write(activations_of(own_token(plan_, layer, token), kind), token * stride_bytes);
  } else {
    throw std::invalid_argument("Layer " + std::to_string(layer) + " of this pass has no input.");
  }
}

void PassMemory::poison_outputs(int round) const {
  if (decoded_ != nullptr) decoded_->fill(poison8(round), decoded_->size());
  for (const LayerMemory& layer : layers_) {
    if (plan_.op == Op::matmul) layer.y->fill(kPoisonFloat, layer.y->size());
    if (plan_.op != Op::matvec) continue;
    layer.y->fill(kPoison32, layer.y->size());
    layer.v->fill(poison8(round), layer.vector_rows);
  }
}

void PassMemory::poison_scratch() const {
  for (const auto& scratch : scratch_) scratch->fill(kPoisonScratch, scratch->size());
}

namespace {

// Marks of a device's scratch, at most. (8192 of them in cuBLAS's workspace of 32 MiB still cost 2 % of a pass.)
constexpr int64_t kMostScratchMarks = 512;

// A multiple of kMarkBytes below `bytes`, or 0.
int64_t drawn_mark(int round, int64_t bytes) {
  return (static_cast<int64_t>(round) * 40503 + 12345) % std::max<int64_t>(1, bytes / kMarkBytes) * kMarkBytes;
}

}  // namespace

std::vector<Step> PassMemory::moving_marks(int round) const {
  std::vector<Step> marks;
  if (decoded_ != nullptr && !layers_.empty()) {
    const int64_t bytes = matrix_bytes(*layers_.back().view), first = first_mark(round, bytes);
    marks.push_back(Fill{decoded_->data() + first, poison8(round), decoded_->size() - first, kMarkStride, -1,
                         shift_of_marks(round, bytes)});
  }
  for (size_t worker = 0; worker < scratch_.size(); ++worker) {
    const Buffer& scratch = *scratch_[worker];
    if (scratch.size() == 0) continue;
    const bool whole = executor_.runs_host_code();
    const int64_t stride = std::max(kMarkStride, scratch.size() / kMostScratchMarks / kMarkBytes * kMarkBytes),
                  first = whole ? 0 : drawn_mark(round, std::min(stride, scratch.size()));
    marks.push_back(Fill{scratch.data() + first, kPoisonScratch, scratch.size() - first, whole ? 0 : stride,
                         static_cast<int>(worker)});
  }
  return marks;
}

std::string PassMemory::broken() const {
  for (size_t i = 0; i < layers_.size(); ++i)
    if (std::string broken = broken_outputs(i); !broken.empty()) return broken;
  if (std::string broken = broken_vectors(); !broken.empty()) return broken;
  if (std::string broken = broken_tokens(); !broken.empty()) return broken;
  for (const auto& scratch : scratch_)
    if (!scratch->guards_intact())
      return any_unfused(plan_) ? "The kernel wrote outside its scratch or the tile it decodes to."
                                : "The kernel wrote outside its scratch.";
  if (decoded_ != nullptr && !decoded_->guards_intact()) return "The kernel wrote outside the decoded matrix.";
  for (const UploadedMatrix* layer : plan_.layers)
    if (std::string broken = layer->broken_guards(); !broken.empty()) return broken;
  return {};
}

std::string PassMemory::broken_outputs(size_t index) const {
  const LayerMemory& layer = layers_[index];
  const std::string of_layer = " of layer " + std::to_string(index) + ".";
  if (layer.y != nullptr && !layer.y->guards_intact())
    return std::string("The kernel wrote outside the ") + (plan_.op == Op::matmul ? "products" : "accumulators") +
           of_layer;
  if (layer.v == nullptr) return {};
  const std::string where = broken_vector(*layer.v, layer.vector_rows);
  return where.empty() ? "" : "The kernel wrote " + where + " the output vector" + of_layer;
}

std::string PassMemory::broken_vectors() const {
  std::vector<std::byte> copy;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::span<const std::byte> expected = std::as_bytes(std::span(plan_.inputs[i]));
    const auto used = static_cast<int64_t>(expected.size());
    if (!broken_vector(*inputs_[i], used).empty() || !std::ranges::equal(inputs_[i]->view(used, copy), expected))
      return "The kernel wrote to the input vector or outside it.";
  }
  return {};
}

std::string PassMemory::broken_tokens() const {
  for (size_t i = 0; i < layers_.size() && plan_.op == Op::matmul; ++i) {
    const LayerMemory& layer = layers_[i];
    if (!holds(*layer.tokens, padded_tokens(own_tokens(plan_, i), layer.view->shape.cols, plan_.batch, layer.kind)))
      return "The kernel wrote to the tokens of layer " + std::to_string(i) + ", past them or outside them.";
    if (layer.scales != nullptr && !holds(*layer.scales, scales_of(plan_, i)->stored))
      return "The kernel wrote to the scales of layer " + std::to_string(i) + " or outside them.";
  }
  return {};
}

}  // namespace ecmv::backends
