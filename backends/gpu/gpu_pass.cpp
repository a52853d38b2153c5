// See gpu_pass.h.
#include "backends/gpu/gpu_pass.h"

#include <algorithm>
#include <stdexcept>

#include "backends/gpu/device_kernels.h"
#include "backends/gpu/discovery.h"
#include "backends/tokens.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {
namespace {

// Beyond every sum of fewer than 125,000 products of bytes.
constexpr int kPoison32 = 0x85;

// Four of these bytes are a NaN.
constexpr int kPoisonFloat = 0xFF;

// Makes the device current before members that need it are made.
int activated(int index) {
  activate(index);
  return index;
}

}  // namespace

GpuPass::GpuPass(const PassPlan& plan, const DeviceInfo& device, int index)
    : plan_(plan), device_(device), index_(activated(index)), stream_(device.wave_size) {
  if (plan.kernel == nullptr) throw std::invalid_argument("The backend '" + device.backend + "' runs no reference decoders, and the codec has no kernel for it.");
  if (plan.op == Op::matmul) check_tokens(plan);
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    GpuBuffer buffer(static_cast<int64_t>(plan.inputs[i].size()) + kVectorPaddingBytes, "the input vector");
    buffer.write(std::as_bytes(std::span(plan.inputs[i])));
    inputs_.push_back(std::move(buffer));
  }
  for (const UploadedMatrix* uploaded : plan.layers) add_layer(*uploaded);
  if (plan.op == Op::matvec)
    for (size_t i = 0; i < layers_.size(); ++i)
      layers_[i].x = plan.chained && i > 0 ? layers_[i - 1].v.as<int8_t>() : inputs_[plan.chained ? 0 : i].as<int8_t>();
  singles_.resize(layers_.size());
  int64_t scratch_bytes = 0, decoded_bytes = 0;
  for (const Layer& layer : layers_) {
    if (plan.kernel->scratch_bytes != nullptr) scratch_bytes = std::max(scratch_bytes, plan.kernel->scratch_bytes(*layer.view, plan.tuning));
    if (plan.op == Op::decode || unfused()) decoded_bytes = std::max(decoded_bytes, layer.view->shape.elements() * datasets::element_bytes(layer.view->type));
  }
  decoded_ = GpuBuffer(decoded_bytes, "the decoded matrix");
  scratch_ = GpuBuffer(scratch_bytes, "the scratch");
  downloaded_ = allocate_host(std::max<int64_t>(1, layers_.empty() ? 0 : result_bytes(layers_.back())));
}

void GpuPass::add_layer(const UploadedMatrix& uploaded) {
  Layer layer;
  layer.view = &uploaded.view();
  const datasets::Shape shape = layer.view->shape;
  if (plan_.op == Op::matvec) {
    layer.y = GpuBuffer(shape.rows * static_cast<int64_t>(sizeof(int32_t)), "the accumulators y");
    layer.v = GpuBuffer(shape.rows + kVectorPaddingBytes, "the output vector v");
  } else if (plan_.op == Op::matmul) {
    const std::vector<float> padded = padded_tokens(plan_.tokens[layers_.size()], shape.cols, plan_.batch);
    layer.x_tokens = GpuBuffer(static_cast<int64_t>(padded.size() * sizeof(float)), "the tokens");
    layer.x_tokens.write(std::as_bytes(std::span(padded)));
    layer.y_tokens = GpuBuffer(result_bytes(layer), "the products");
  }
  layers_.push_back(std::move(layer));
}

int64_t GpuPass::result_bytes(const Layer& layer) const {
  if (plan_.op == Op::decode) return 0;
  return layer.view->shape.rows * (plan_.op == Op::matmul ? plan_.batch * static_cast<int64_t>(sizeof(float)) : 1);
}

GpuPass::~GpuPass() {
  try {
    stream_.synchronize();
  } catch (const std::exception&) {
    // Reported by the run that caused it.
  }
  release_host(downloaded_);
}

KernelCall GpuPass::call_of(size_t index) {
  const Layer& layer = layers_[index];
  KernelCall call;
  call.matrix = layer.view;
  call.tuning = plan_.tuning;
  call.row_end = layer.view->shape.rows;
  call.scratch = scratch_.data();
  call.stream = stream_.opaque();
  call.device = &device_;
  if (plan_.op == Op::matvec) {
    call.x = layer.x;
    call.y = layer.y.as<int32_t>();
    call.v = layer.v.as<int8_t>();
    call.scale = plan_.scales[index];
  } else if (plan_.op == Op::matmul) {
    call.batch = plan_.batch;
    call.x_tokens = layer.x_tokens.as<float>();
    call.x_stride = token_stride(layer.view->shape.cols);
    call.y_tokens = layer.y_tokens.as<float>();
  }
  if (plan_.op == Op::decode || unfused()) call.decoded = decoded_.as<int8_t>();
  return call;
}

GpuPass::Chain& GpuPass::prepared(Chain& chain, size_t first, size_t count) {
  if (!chain.calls.empty()) return chain;
  for (size_t i = first; i < first + count; ++i) chain.calls.push_back(call_of(i));
  chain.scratch = GpuBuffer(plan_.kernel->chain_scratch_bytes(chain.calls), "the scratch");
  for (KernelCall& call : chain.calls) call.scratch = chain.scratch.data();
  plan_.kernel->prepare_chain(chain.calls);
  return chain;
}

void GpuPass::prepare_chains() {
  if (!runs_chains() || layers_.empty()) return;
  if (plan_.chained)
    prepared(whole_, 0, layers_.size());
  else
    for (size_t i = 0; i < layers_.size(); ++i) prepared(singles_[i], i, 1);
  stream_.synchronize();
}

void GpuPass::launch_layer(size_t index) {
  decoded_bytes_ = layers_[index].view->shape.elements() * datasets::element_bytes(layers_[index].view->type);
  if (runs_chains()) return plan_.kernel->launch_chain(prepared(singles_[index], index, 1).calls);
  const KernelCall call = call_of(index);
  plan_.kernel->launch(call);
  if (!unfused()) return;
  if (plan_.op == Op::matvec)
    dense_product(call.decoded, call);
  else
    dense_float_product(reinterpret_cast<const std::byte*>(call.decoded), call);
}

void GpuPass::launch_all() {
  if (runs_chains() && plan_.chained && !layers_.empty())
    plan_.kernel->launch_chain(whole_.calls);
  else
    for (size_t i = 0; i < layers_.size(); ++i) launch_layer(i);
  if (plan_.op == Op::decode || layers_.empty()) return;
  const Layer& last = layers_.back();
  stream_.copy_out(downloaded_, (plan_.op == Op::matvec ? last.v : last.y_tokens).data(), result_bytes(last));
}

double GpuPass::run() {
  activate(index_);
  prepare_chains();
  if (plan_.graph && Graph::kAvailable && !layers_.empty() && !graph_.captured()) {
    // Kernels are loaded at their first launch, which must not happen inside a capture.
    launch_all();
    stream_.synchronize();
    graph_.begin(stream_);
    launch_all();
    graph_.end(stream_);
  }
  timer_.start(stream_);
  if (graph_.captured())
    graph_.launch(stream_);
  else
    launch_all();
  timer_.stop(stream_);
  return timer_.seconds(stream_);
}

void GpuPass::run_layer(int layer) {
  activate(index_);
  launch_layer(static_cast<size_t>(layer));
  stream_.synchronize();
}

void GpuPass::poison_outputs(int round) {
  activate(index_);
  const int poison8 = round == 0 ? -128 : 127;
  fill(decoded_.data(), poison8, decoded_.size());
  if (plan_.op == Op::decode) return;
  for (Layer& layer : layers_) {
    if (plan_.op == Op::matmul) {
      fill(layer.y_tokens.data(), kPoisonFloat, layer.y_tokens.size());
      continue;
    }
    fill(layer.y.data(), kPoison32, layer.y.size());
    fill(layer.v.data(), poison8, layer.view->shape.rows);
  }
}

std::span<const int32_t> GpuPass::accumulators(int layer) {
  Layer& one = layers_[static_cast<size_t>(layer)];
  one.host_y.resize(static_cast<size_t>(one.view->shape.rows));
  one.y.read(std::as_writable_bytes(std::span(one.host_y)));
  return one.host_y;
}

std::span<const int8_t> GpuPass::outputs(int layer) {
  Layer& one = layers_[static_cast<size_t>(layer)];
  one.host_v.resize(static_cast<size_t>(one.view->shape.rows));
  one.v.read(std::as_writable_bytes(std::span(one.host_v)));
  return one.host_v;
}

std::span<const float> GpuPass::products(int layer) {
  Layer& one = layers_[static_cast<size_t>(layer)];
  one.host_products.resize(static_cast<size_t>(plan_.batch * one.view->shape.rows));
  one.y_tokens.read(std::as_writable_bytes(std::span(one.host_products)));
  return one.host_products;
}

std::span<const int8_t> GpuPass::decoded() {
  host_decoded_.resize(static_cast<size_t>(decoded_bytes_));
  decoded_.read(std::as_writable_bytes(std::span(host_decoded_)));
  return host_decoded_;
}

// "" if the guards hold and nothing but zeros follows the first `used` bytes.
std::string GpuPass::broken_vector(const GpuBuffer& vector, int64_t used) const {
  if (!vector.guards_intact()) return "outside";
  std::vector<std::byte> padding(static_cast<size_t>(vector.size() - used));
  vector.read(padding, used);
  return std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{0}; }) ? "" : "to the padding of";
}

std::string GpuPass::broken_outputs() const {
  for (size_t i = 0; i < layers_.size() && plan_.op != Op::decode; ++i) {
    const Layer& layer = layers_[i];
    const std::string of_layer = " of layer " + std::to_string(i) + ".";
    if (!layer.y.guards_intact()) return "The kernel wrote outside the accumulators" + of_layer;
    if (!layer.y_tokens.guards_intact()) return "The kernel wrote outside the products" + of_layer;
    if (plan_.op == Op::matmul) continue;
    if (const std::string where = broken_vector(layer.v, layer.view->shape.rows); !where.empty()) return "The kernel wrote " + where + " the output vector" + of_layer;
  }
  return {};
}

std::string GpuPass::broken_inputs() const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::vector<int8_t>& input = plan_.inputs[i];
    if (const std::string where = broken_vector(inputs_[i], static_cast<int64_t>(input.size())); !where.empty())
      return "The kernel wrote " + where + " the input vector.";
    std::vector<int8_t> now(input.size());
    inputs_[i].read(std::as_writable_bytes(std::span(now)));
    if (now != input) return "The kernel wrote to the input vector.";
  }
  for (size_t i = 0; i < layers_.size() && plan_.op == Op::matmul; ++i) {
    const std::vector<float> expected = padded_tokens(plan_.tokens[i], layers_[i].view->shape.cols, plan_.batch);
    std::vector<float> now(expected.size());
    layers_[i].x_tokens.read(std::as_writable_bytes(std::span(now)));
    if (!layers_[i].x_tokens.guards_intact() || !std::ranges::equal(std::as_bytes(std::span(now)), std::as_bytes(std::span(expected))))
      return "The kernel wrote to the tokens of layer " + std::to_string(i) + ", behind them or outside them.";
  }
  return {};
}

std::string GpuPass::broken_guards() const {
  activate(index_);
  if (std::string broken = broken_outputs(); !broken.empty()) return broken;
  if (std::string broken = broken_inputs(); !broken.empty()) return broken;
  const auto intact = [](const Chain& chain) { return chain.scratch.guards_intact(); };
  if (!scratch_.guards_intact() || !intact(whole_) || !std::all_of(singles_.begin(), singles_.end(), intact)) return "The kernel wrote outside its scratch.";
  if (!decoded_.guards_intact()) return "The kernel wrote outside the decoded matrix.";
  for (const UploadedMatrix* layer : plan_.layers) {
    std::string broken = layer->broken_guards();
    if (!broken.empty()) return broken;
  }
  return {};
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
