// See cpu_pass.h.
#include "backends/cpu/cpu_pass.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "backends/tokens.h"
#include "hwy/targets.h"

namespace ecmv::backends::cpu {
namespace {

// Decoded bytes that an unfused product holds before it multiplies them: a quarter of a typical L2, so that the tile is
// still there; never less than one block.
constexpr int64_t kTileBytes = int64_t{256} << 10;
constexpr int32_t kPoison32 = -0x7A5A5A5A;

int64_t matrix_bytes(const codecs::CompressedView& view) { return view.shape.elements() * datasets::element_bytes(view.type); }

template <typename T>
GuardedBuffer filled(std::span<const T> values, int64_t bytes_behind) {
  GuardedBuffer buffer(static_cast<int64_t>(values.size_bytes()) + bytes_behind);
  if (!values.empty()) std::memcpy(buffer.data(), values.data(), values.size_bytes());
  return buffer;
}

bool zeros_behind(const GuardedBuffer& vector, int64_t used) {
  return std::all_of(vector.data() + used, vector.data() + vector.size(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

void select_target(int64_t target) {
  static int64_t selected = 0;
  if (target == selected) return;
  selected = target;
  hwy::SetSupportedTargetsForTest(target);
  // Done here, before threads run: the first dispatch of a thread would otherwise choose anew.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

CpuPass::CpuPass(const PassPlan& plan, Team team, DenseProducts dense, int64_t target)
    : plan_(plan), team_(team), dense_(dense), target_(target) {
  select_target(target_);
  if (plan.kernel != nullptr && plan.kernel->runs_chains()) throw std::invalid_argument("CPU backends run layer by layer, and the kernel takes a whole chain.");
  if (plan.op == Op::matmul) check_tokens(plan);
  for (const std::vector<int8_t>& input : plan.inputs) inputs_.push_back(filled<int8_t>(input, kVectorPaddingBytes));
  for (const UploadedMatrix* uploaded : plan.layers) add_layer(*uploaded);
  if (plan.op == Op::matvec)
    for (size_t i = 0; i < layers_.size(); ++i)
      layers_[i].x = plan.chained && i > 0 ? layers_[i - 1].v.as<int8_t>() : inputs_[plan.chained ? 0 : i].as<int8_t>();
  int64_t scratch_bytes = 0, tile_bytes = 0, decoded_bytes = 0;
  for (const Layer& layer : layers_) {
    const datasets::Shape shape = layer.view->shape;
    if (plan.kernel != nullptr && plan.kernel->scratch_bytes != nullptr)
      scratch_bytes = std::max(scratch_bytes, plan.kernel->scratch_bytes(*layer.view, plan.tuning));
    if (plan.op == Op::decode) decoded_bytes = std::max(decoded_bytes, matrix_bytes(*layer.view));
    if (unfused()) tile_bytes = std::max(tile_bytes, std::min(layer.rows_per_tile, shape.rows) * shape.cols * datasets::element_bytes(layer.view->type));
  }
  decoded_ = GuardedBuffer(decoded_bytes);
  for (int t = 0; t < team_.threads(); ++t) {
    scratch_.emplace_back(scratch_bytes);
    tiles_.emplace_back(plan.kernel == nullptr && t > 0 ? 0 : tile_bytes);
  }
}

void CpuPass::add_layer(const UploadedMatrix& uploaded) {
  Layer layer;
  layer.view = &uploaded.view();
  const datasets::Shape shape = layer.view->shape;
  if (plan_.kernel == nullptr)
    layer.rows_per_block = std::max<int64_t>(1, shape.rows);
  else if (plan_.kernel->rows_per_block != nullptr)
    layer.rows_per_block = std::max<int64_t>(1, plan_.kernel->rows_per_block(*layer.view));
  if (plan_.op == Op::matvec) {
    layer.y = GuardedBuffer(shape.rows * static_cast<int64_t>(sizeof(int32_t)));
    layer.v = GuardedBuffer(shape.rows + kVectorPaddingBytes);
  } else if (plan_.op == Op::matmul) {
    layer.x_stride = token_stride(shape.cols);
    layer.x_tokens = filled<float>(padded_tokens(plan_.tokens[layers_.size()], shape.cols, plan_.batch), 0);
    layer.y_tokens = GuardedBuffer(plan_.batch * shape.rows * static_cast<int64_t>(sizeof(float)));
  }
  if (unfused()) {
    const int64_t rows = std::max<int64_t>(1, kTileBytes / std::max<int64_t>(1, shape.cols * datasets::element_bytes(layer.view->type)));
    layer.rows_per_tile = std::max<int64_t>(1, rows / layer.rows_per_block) * layer.rows_per_block;
  }
  layers_.push_back(std::move(layer));
}

// The layer's decoded rows [row, row + rows) at w.
void CpuPass::multiply_dense(const Layer& layer, const std::byte* w, int64_t row, int64_t rows) {
  const datasets::Shape shape = layer.view->shape;
  if (plan_.op == Op::matvec)
    dense_.matvec(reinterpret_cast<const int8_t*>(w), rows, shape.cols, layer.x, layer.y.as<int32_t>() + row);
  else
    dense_.matmul(layer.view->type, w, rows, shape.cols, layer.x_tokens.as<float>(), layer.x_stride, plan_.batch, layer.y_tokens.as<float>() + row, shape.rows);
}

void CpuPass::requantise_rows(Layer& layer, int layer_index, int64_t row_begin, int64_t row_end) {
  const float scale = plan_.scales[layer_index];
  for (int64_t row = row_begin; row < row_end; ++row) layer.v.as<int8_t>()[row] = requantise(layer.y.as<int32_t>()[row], scale);
}

// Decodes tile after tile of the thread's rows and multiplies each while it is in a near cache.
void CpuPass::multiply_tiles(const Layer& layer, KernelCall call, int64_t row_begin, int64_t row_end, std::byte* tile) {
  call.decoded = reinterpret_cast<int8_t*>(tile);
  for (int64_t row = row_begin; row < row_end; row += layer.rows_per_tile) {
    call.row_begin = row;
    call.row_end = std::min(row + layer.rows_per_tile, row_end);
    plan_.kernel->launch(call);
    multiply_dense(layer, tile, row, call.row_end - row);
  }
}

void CpuPass::run_rows(Layer& layer, int layer_index, int thread) {
  const datasets::Shape shape = layer.view->shape;
  const int64_t blocks = (shape.rows + layer.rows_per_block - 1) / layer.rows_per_block;
  const int64_t row_begin = blocks * thread / team_.threads() * layer.rows_per_block;
  const int64_t row_end = std::min(blocks * (thread + 1) / team_.threads() * layer.rows_per_block, shape.rows);
  if (row_begin >= row_end) return;
  KernelCall call;
  call.matrix = layer.view;
  call.tuning = plan_.tuning;
  call.row_begin = row_begin;
  call.row_end = row_end;
  call.scratch = scratch_[thread].data();
  if (plan_.op == Op::decode) {
    call.decoded = decoded_.as<int8_t>() + row_begin * shape.cols * datasets::element_bytes(layer.view->type);
  } else if (plan_.op == Op::matvec) {
    call.x = layer.x;
    call.y = layer.y.as<int32_t>();
  } else {
    call.batch = plan_.batch;
    call.x_tokens = layer.x_tokens.as<float>();
    call.x_stride = layer.x_stride;
    call.y_tokens = layer.y_tokens.as<float>();
  }
  if (unfused())
    multiply_tiles(layer, call, row_begin, row_end, tiles_[thread].data());
  else
    plan_.kernel->launch(call);
  if (plan_.op == Op::matvec) requantise_rows(layer, layer_index, row_begin, row_end);
}

// A codec without kernels for this backend: its reference decoder, the whole matrix on one thread.
void CpuPass::run_reference(Layer& layer) {
  const int64_t rows = layer.view->shape.rows;
  const GuardedBuffer& target = plan_.op == Op::decode ? decoded_ : tiles_[0];
  plan_.reference_decode(*layer.view, target.bytes().first(matrix_bytes(*layer.view)));
  if (plan_.op == Op::decode) return;
  multiply_dense(layer, target.data(), 0, rows);
  if (plan_.op == Op::matvec) requantise_rows(layer, static_cast<int>(&layer - layers_.data()), 0, rows);
}

double CpuPass::run() {
  select_target(target_);
  const auto start = std::chrono::steady_clock::now();
  if (plan_.kernel == nullptr) {
    for (Layer& layer : layers_) run_reference(layer);
  } else {
    team_.run([&](int thread) {
      for (size_t i = 0; i < layers_.size(); ++i) {
        run_rows(layers_[i], static_cast<int>(i), thread);
        Team::barrier();
      }
    });
  }
  if (!layers_.empty()) {
    decoded_bytes_ = matrix_bytes(*layers_.back().view);
    if (plan_.op == Op::matvec) {
      const int8_t* v = layers_.back().v.as<int8_t>();
      downloaded_.assign(v, v + layers_.back().view->shape.rows);
    } else if (plan_.op == Op::matmul) {
      const std::span<const float> y = products(static_cast<int>(layers_.size()) - 1);
      downloaded_products_.assign(y.begin(), y.end());
    }
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void CpuPass::run_layer(int layer) {
  select_target(target_);
  decoded_bytes_ = matrix_bytes(*layers_[layer].view);
  if (plan_.kernel == nullptr) return run_reference(layers_[layer]);
  team_.run([&](int thread) { run_rows(layers_[layer], layer, thread); });
}

void CpuPass::poison_outputs(int round) {
  const int poison8 = round == 0 ? -128 : 127;
  if (decoded_.size() > 0) std::memset(decoded_.data(), poison8, decoded_.size());
  if (plan_.op == Op::decode) return;
  for (Layer& layer : layers_) {
    const int64_t rows = layer.view->shape.rows;
    if (plan_.op == Op::matmul) {
      std::fill_n(layer.y_tokens.as<float>(), plan_.batch * rows, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    std::fill_n(layer.y.as<int32_t>(), rows, kPoison32);
    std::memset(layer.v.data(), poison8, rows);
  }
}

std::span<const int32_t> CpuPass::accumulators(int layer) {
  return {layers_[layer].y.as<int32_t>(), static_cast<size_t>(layers_[layer].view->shape.rows)};
}

std::span<const int8_t> CpuPass::outputs(int layer) {
  return {layers_[layer].v.as<int8_t>(), static_cast<size_t>(layers_[layer].view->shape.rows)};
}

std::span<const float> CpuPass::products(int layer) {
  return {layers_[layer].y_tokens.as<float>(), static_cast<size_t>(plan_.batch * layers_[layer].view->shape.rows)};
}

std::span<const int8_t> CpuPass::decoded() { return {decoded_.as<int8_t>(), static_cast<size_t>(decoded_bytes_)}; }

std::string CpuPass::broken_inputs() const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::vector<int8_t>& input = plan_.inputs[i];
    if (!inputs_[i].guards_intact() || !zeros_behind(inputs_[i], static_cast<int64_t>(input.size())) ||
        !std::equal(input.begin(), input.end(), inputs_[i].as<int8_t>()))
      return "The kernel wrote to the input vector or outside it.";
  }
  for (size_t i = 0; i < layers_.size() && plan_.op == Op::matmul; ++i) {
    const GuardedBuffer& tokens = layers_[i].x_tokens;
    const std::vector<float> expected = padded_tokens(plan_.tokens[i], layers_[i].view->shape.cols, plan_.batch);
    if (!tokens.guards_intact() || !std::ranges::equal(tokens.bytes(), std::as_bytes(std::span(expected))))
      return "The kernel wrote to the tokens of layer " + std::to_string(i) + ", behind them or outside them.";
  }
  return {};
}

std::string CpuPass::broken_guards() const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    if (!layer.y.guards_intact()) return "The kernel wrote outside the accumulators of layer " + std::to_string(i) + ".";
    if (!layer.v.guards_intact() || (plan_.op == Op::matvec && !zeros_behind(layer.v, layer.view->shape.rows)))
      return "Something wrote outside the output vector of layer " + std::to_string(i) + ".";
    if (!layer.y_tokens.guards_intact()) return "The kernel wrote outside the products of layer " + std::to_string(i) + ".";
  }
  if (std::string broken = broken_inputs(); !broken.empty()) return broken;
  for (const GuardedBuffer& buffer : scratch_)
    if (!buffer.guards_intact()) return "The kernel wrote outside its scratch.";
  for (const GuardedBuffer& buffer : tiles_)
    if (!buffer.guards_intact()) return "The kernel wrote outside the tile it decodes to.";
  if (!decoded_.guards_intact()) return "The kernel wrote outside the decoded matrix.";
  for (const UploadedMatrix* layer : plan_.layers) {
    std::string broken = layer->broken_guards();
    if (!broken.empty()) return broken;
  }
  return {};
}

}  // namespace ecmv::backends::cpu
