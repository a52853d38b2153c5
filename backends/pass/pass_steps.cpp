// See pass_steps.h.
#include "backends/pass/pass_steps.h"

#include "backends/activations.h"

namespace ecmv::backends {
namespace {

template <typename T>
const T* as(const std::unique_ptr<Buffer>& buffer) {
  return reinterpret_cast<const T*>(buffer->data());
}

Args args_of(const PassPlan& plan, const PassMemory& memory, size_t index) {
  const LayerMemory& layer = memory[index];
  if (plan.op == Op::decode) return DecodeArgs{.out = memory.decoded()->data()};
  if (plan.op == Op::matmul) {
    const Activations kind = layer.kind;
    return MatmulArgs{.x = kind == Activations::f32 ? as<float>(layer.tokens) : nullptr,
                      .x_bf16 = kind == Activations::bf16 ? as<uint16_t>(layer.tokens) : nullptr,
                      .x_stride = token_stride(layer.view->shape.cols, kind),
                      .y = layer.own_products(),
                      .y_stride = layer.rows()};
  }
  if (takes_chains(plan)) return ChainArgs{.x = layer.x};
  return MatvecArgs{.x = layer.x, .y = layer.sums(), .v = layer.own_rows(), .scale = plan.scales[index]};
}

std::vector<Step> steps_of(const PassPlan& plan, const PassMemory& memory, const BoundKernel& kernel, size_t index) {
  const LayerMemory& layer = memory[index];
  const int64_t rows = layer.rows(),
                row_bytes =
                    plan.op != Op::decode ? 0 : layer.view->shape.cols * datasets::element_bytes(layer.view->type);
  std::vector<Step> steps = {Enqueue{&kernel, rows, row_bytes, args_of(plan, memory, index)}};
  if (plan.op == Op::matvec && !kernel.facts.requantises)
    steps.push_back(Requantise{&kernel, rows, layer.sums(), layer.own_rows(), plan.scales[index]});
  if (scales_rows(plan, index))
    steps.push_back(ScaleRows{&kernel, rows, plan.batch, layer.own_products(), as<uint16_t>(layer.scales),
                              scales_of(plan, index)->rows == 1});
  if (gathers(plan, index))
    steps.push_back(Gather{plan.ranks, (plan.op == Op::matvec ? layer.v : layer.y)->data(), &layer.gathered});
  if (split_of(plan, index) == Split::cols)
    steps.push_back(Reduce{plan.ranks, layer.own_products(), plan.batch * rows});
  return steps;
}

// Every rank's products, one after the other.
std::vector<Step> fetch_of(const PassPlan& plan, const LayerMemory& last, std::span<std::byte> host) {
  if (last.gathered.empty()) return {Download{last.y->data(), host.data(), static_cast<int64_t>(host.size())}};
  std::vector<Step> steps;
  std::byte* to = host.data();
  const std::vector<int64_t>& first_rows = plan.parts.back();
  for (size_t rank = 0; rank + 1 < first_rows.size(); ++rank) {
    const int64_t part = plan.batch * (first_rows[rank + 1] - first_rows[rank]) * static_cast<int64_t>(sizeof(float));
    steps.push_back(Download{last.y->data() + last.gathered[rank], to, part});
    to += part;
  }
  return steps;
}

void divide_shares(PassSteps& steps) {
  for (const Step& step : steps.all) {
    const bool exchanges = std::holds_alternative<Gather>(step) || std::holds_alternative<Reduce>(step);
    if (exchanges || std::holds_alternative<Meet>(step)) steps.exchange.push_back(step);
    if (!exchanges) steps.product.push_back(step);
  }
}

std::vector<Step> marks_of(const PassPlan& plan, const PassMemory& memory, int round) {
  std::vector<Step> marks;
  if (const Buffer* decoded = memory.decoded())
    marks.push_back(Fill{decoded->data(), poison8(round), decoded->size(), kMarkStride});
  for (const LayerMemory& layer : memory.layers()) {
    if (layer.y != nullptr)
      marks.push_back(Fill{layer.y->data(), plan.op == Op::matmul ? kPoisonFloat : kPoison32, layer.y->size()});
    if (layer.v != nullptr) marks.push_back(Fill{layer.v->data(), poison8(round), layer.vector_rows});
  }
  return marks;
}

}  // namespace

int64_t result_bytes(const PassPlan& plan, const PassMemory& memory) {
  if (plan.op == Op::decode || memory.layers().empty()) return 0;
  const int64_t rows = memory.layers().back().vector_rows;
  return plan.op == Op::matvec ? rows : plan.batch * rows * static_cast<int64_t>(sizeof(float));
}

PassSteps make_steps(const PassPlan& plan, const PassMemory& memory, std::span<const BoundKernel> kernels,
                     const BoundKernel& chain, std::span<std::byte> host) {
  PassSteps steps;
  for (int round = 0; round < 2; ++round) steps.marks[round] = marks_of(plan, memory, round);
  if (memory.layers().empty()) return steps;
  for (size_t i = 0; i < kernels.size(); ++i) steps.of_layer.push_back(steps_of(plan, memory, kernels[i], i));
  if (plan.ranks != nullptr) steps.all.push_back(Meet{plan.ranks});
  if (takes_chains(plan) && plan.chained) {
    const LayerMemory& first = memory.layers().front();
    steps.all.push_back(Enqueue{&chain, first.rows(), 0, ChainArgs{.x = first.x}});
  } else {
    for (const std::vector<Step>& layer : steps.of_layer) {
      steps.first.push_back(steps.all.size());
      steps.all.insert(steps.all.end(), layer.begin(), layer.end());
    }
  }
  // A chain ends in a vector of bytes, which the host gets. The products of a batch stay on the device in any use of
  // them (64 tokens of 16384 rows took as long to copy as half a layer), so the clock does not see their copy.
  const LayerMemory& last = memory.layers().back();
  if (plan.op == Op::matvec)
    steps.all.push_back(Download{last.v->data(), host.data(), static_cast<int64_t>(host.size())});
  if (plan.op == Op::matmul) steps.fetch = fetch_of(plan, last, host);
  if (plan.ranks != nullptr) divide_shares(steps);
  return steps;
}

}  // namespace ecmv::backends
