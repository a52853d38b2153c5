// GPU kernels of raw_int8. `tuned` (backends/gpu/products/dense_matvec.h) reads 16 bytes at once if every row begins at
// a multiple of 16, else 4 or 1. `chain` multiplies all layers in one launch (chain_gpu.h). `blas` is the platform's
// library, which has no int8 product with a vector: x is one of 1 or 16 columns, the others are zeros, and a launch of
// its own requantises.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/gpu/host/blas.h"
#include "backends/gpu/host/device_kernels.h"
#include "backends/gpu/products/dense_matvec.h"
#include "codecs/modelling/plain_gpu.h"
#include "codecs/raw_int8/chain_gpu.h"

namespace ecmv::codecs::raw_int8::ECMV_GPU_NAMESPACE {
namespace {

namespace plain = modelling::ECMV_GPU_NAMESPACE;

// One thread an element.
ECMV_GPU_KERNEL void copy_vector(gpu::Pointer<const int8_t> from, gpu::Pointer<int8_t> to, int64_t length) {
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i < length) to[i] = from[i];
}

using gpu::DenseMatrix;

DenseMatrix matrix_of(const backends::Layer& layer, const backends::Place& place, bool early = false) {
  return gpu::dense_matrix(*layer.matrix, modelling::plain_elements<std::byte>(*layer.matrix), place.device(), early);
}

// Waves a block, loads a lane and row, rows a wave where more than one, waves that must fit on a multiprocessor.
// `early` policies begin to load while the layer before ends, on devices that can. On H100 and H200 the first early
// policy is the fastest or within 2 % of it in 48 of 62 published settings; the other early ones win single settings.
struct TunedPolicy : backends::Policy {
  void (*launch)(const DenseMatrix&, void* stream, const backends::MatvecArgs&);
  bool early;
};
constexpr TunedPolicy kTunedPolicies[] = {
    {{"waves8_loads8_fit24"}, gpu::launch_dense<8, 8, 1, 24>, false},
    {{"waves8_loads8_fit24_early"}, gpu::launch_dense<8, 8, 1, 24>, true},
    {{"waves8_loads4_rows2_fit24_early"}, gpu::launch_dense<8, 4, 2, 24>, true},
    {{"waves16_loads8_fit32_early"}, gpu::launch_dense<16, 8, 1, 32>, true},
};

struct Tuned {
  DenseMatrix matrix;
  decltype(TunedPolicy::launch) launch;
  void operator()(void* stream, const backends::MatvecArgs& args) const { launch(matrix, stream, args); }
};

// Columns of the library's product: x is the first one, and the others are zeros. One column is mostly the fastest, but
// on an H200 16 win by up to 11 % at 4096² and by 3 % at 32768².
struct BlasColumnsPolicy : backends::Policy {
  int columns;
};
constexpr BlasColumnsPolicy kBlasPolicies[] = {{{"gemm_columns1"}, 1}, {{"gemm_columns16"}, 16}};

struct Blas {
  DenseMatrix matrix;
  int columns;
  int8_t* wide_x;  // [columns, cols]
  // The workspace, then all sums.
  int64_t scratch_bytes() const {
    return gpu::kBlasWorkspaceBytes + columns * matrix.shape.rows * static_cast<int64_t>(sizeof(int32_t));
  }

  void operator()(void* stream, const backends::MatvecArgs& args) const {
    const datasets::Shape shape = matrix.shape;
    const gpu::BlasPlace place{args.scratch, stream};
    const int8_t* x = args.x;
    int32_t* sums = args.y;
    if (columns > 1) {
      gpu::launch(copy_vector, plain::a_thread_each(shape.cols), stream, args.x, wide_x, shape.cols);
      x = wide_x;
      sums = reinterpret_cast<int32_t*>(args.scratch + gpu::kBlasWorkspaceBytes);
    }
    gpu::blas_product(matrix.i8(), shape, x, columns, sums, place);
    gpu::requantise_rows(sums, shape.rows, args.y, args.v, args.scale, stream);
  }
};

std::string blas_refuses(const backends::CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  const datasets::Shape shape = matrix.shape;
  if (shape.elements() == 0 || shape.rows % 4 != 0 || shape.cols % 4 != 0)
    return "The library's int8 product takes rows and columns in multiples of 4.";
  if (shape.rows >= (int64_t{1} << 31) || shape.cols >= (int64_t{1} << 31))
    return "The library counts rows and columns in 32 bits.";
  return gpu::blas_missing();
}

// --- chain_gpu.h ----------------------------------------------------------------------------------------------------

// Description of all launches of a chain.
struct Chain {
  const ChainLayer* layers;
  int count;
  std::byte* exchange;
  int64_t words;            // of the longest vector handed on
  int cols, rows_of_block;  // the largest of all layers
  int layers_in_shared;
  gpu::LaunchShape shape;
  void (*launch)(const Chain&, void* stream, const int8_t* x);
  void operator()(void* stream, const backends::ChainArgs& args) const { launch(*this, stream, args.x); }
};

template <typename Form, int kSteps>
void launch_chain(const Chain& bound, void* stream, const int8_t* x) {
  gpu::launch(chain<Form, kSteps>, bound.shape, stream, bound.layers, bound.count,
              gpu::Exchange(bound.exchange, bound.words), x, bound.cols, bound.rows_of_block, bound.layers_in_shared);
}

constexpr int kMostSteps = 8;

struct ChainPolicy : backends::Policy {
  int slices, waves, depth, wide, feeders;
  decltype(Chain::launch) launch[4];  // with x in the registers of 1, 2, 4 and kMostSteps steps
};
template <typename Form>
constexpr ChainPolicy chain_policy(std::string_view name) {
  return {{name},
          Form::kSlices,
          Form::kWaves,
          Form::kDepth,
          Form::kWide,
          Form::kFeeders,
          {launch_chain<Form, 1>, launch_chain<Form, 2>, launch_chain<Form, 4>, launch_chain<Form, kMostSteps>}};
}
// Slices x parts of a block's waves that multiply, chunks a lane and step where more than one, steps of a wave's ring,
// and how many of these may be on their way. From 4096 to 16384 on an H100 the first is within 2 % of the fastest of
// all kernels; at 4096 the second or third is up to 2 % faster, at 8192 on an H100 the third.
constexpr ChainPolicy kChainPolicies[] = {
    chain_policy<ChainForm<4, 2, 6, 2, 2>>("waves4x2_wide2_ring6_flight2"),
    chain_policy<ChainForm<2, 4, 12, 1, 3>>("waves2x4_ring12_flight3"),
    chain_policy<ChainForm<8, 1, 12, 1, 4>>("waves8x1_ring12_flight4"),
    chain_policy<ChainForm<2, 2, 3, 1, 2>>("waves2x2_ring3_flight2"),
};

int64_t quads_of(datasets::Shape shape) { return (shape.rows + kQuad - 1) / kQuad; }
int64_t rows_of_block(datasets::Shape shape, const backends::DeviceInfo& device) {
  return (quads_of(shape) + device.compute_units - 1) / device.compute_units * kQuad;
}
int64_t chain_shared_bytes(const ChainPolicy& form, int64_t cols, int64_t rows, const backends::DeviceInfo& device) {
  return int64_t{form.waves} *
             (form.depth * kQuad * form.wide * device.wave_size * kChunk + (form.depth + 1) * gpu::Arrival::kBytes) +
         cols + form.slices * rows * static_cast<int64_t>(sizeof(int32_t));
}
int64_t steps_of(const ChainPolicy& form, datasets::Shape shape, const backends::DeviceInfo& device) {
  const int64_t round = form.slices * kChunksOfLine, each = (shape.cols / kChunk + round - 1) / round * kChunksOfLine;
  const int64_t step = form.wide * device.wave_size;
  return (each + step - 1) / step;
}

std::string chain_refuses(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                          const backends::Policy& policy) {
  const datasets::Shape shape = matrix.shape;
  if (!gpu::have_bulk_copies(device))
    return "The kernel needs bulk copies to shared memory, which NVIDIA devices have since sm_90.";
  const auto& form = policy.as<ChainPolicy>();
  if (shape.elements() == 0 || shape.cols % kChunk != 0)
    return "The kernel takes columns in multiples of 16, and at least one row.";
  if (shape.rows >= int64_t{1} << 30) return "The kernel counts rows in 32 bits: fewer than 2^30 of them.";
  if (steps_of(form, shape, device) > kMostSteps)
    return "The kernel keeps x in registers: at most " +
           std::to_string(int64_t{form.slices} * kMostSteps * form.wide * device.wave_size * kChunk) + " columns.";
  return plain::refuses_shared(chain_shared_bytes(form, shape.cols, rows_of_block(shape, device), device), device);
}

backends::BoundKernel bind_chain(const backends::Policy& policy, backends::Layers layers, int, backends::Place& place) {
  const backends::DeviceInfo& device = place.device();
  const auto& form = policy.as<ChainPolicy>();
  Chain bound{};
  bound.count = static_cast<int>(layers.size());
  int64_t blocks = 1, rows = 0, cols = 0, steps = 1;
  for (const backends::Layer& layer : layers) {
    const datasets::Shape shape = layer.matrix->shape;
    bound.words = std::max(bound.words, quads_of(shape));
    blocks = std::max(blocks, std::min<int64_t>(device.compute_units, quads_of(shape)));
    rows = std::max(rows, rows_of_block(shape, device));
    cols = std::max<int64_t>(cols, shape.cols);
    steps = std::max(steps, steps_of(form, shape, device));
  }
  std::vector<ChainLayer> stored;
  for (const backends::Layer& layer : layers) {
    const datasets::Shape shape = layer.matrix->shape;
    stored.push_back({.w = modelling::plain_elements<int8_t>(*layer.matrix),
                      .epilogue = gpu::epilogue_of(layer),
                      .rows = static_cast<int>(shape.rows),
                      .chunks = static_cast<int>(shape.cols / kChunk),
                      .quads_each = static_cast<int>(quads_of(shape) / blocks),
                      .longer_blocks = static_cast<int>(quads_of(shape) % blocks)});
  }
  bound.layers = reinterpret_cast<const ChainLayer*>(place.describe(std::as_bytes(std::span(stored))));
  bound.exchange = place.zeroed(gpu::Exchange::bytes(bound.words));
  bound.cols = static_cast<int>(cols);
  bound.rows_of_block = static_cast<int>(rows);
  int64_t shared_bytes = chain_shared_bytes(form, cols, rows, device);
  const auto layers_bytes = static_cast<int64_t>(stored.size() * sizeof(ChainLayer));
  if (shared_bytes + layers_bytes <= device.shared_bytes) {
    bound.layers_in_shared = 1;
    shared_bytes += layers_bytes;
  }
  bound.shape = {.grid = blocks,
                 .block = (form.waves + form.feeders) * device.wave_size,
                 .shared_bytes = shared_bytes,
                 .together = true};
  bound.launch = form.launch[steps <= 1 ? 0 : steps <= 2 ? 1 : steps <= 4 ? 2 : 3];
  return {bound, {.requantises = true}};
}

// --- the table ------------------------------------------------------------------------------------------------------

std::string refuses(const backends::CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return plain::refuses_cols(matrix.shape);
}

using backends::Layers;

backends::BoundKernel bind_tuned(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  const auto& tuned = policy.as<TunedPolicy>();
  return {Tuned{matrix_of(layers[0], place, tuned.early), tuned.launch}, {.requantises = true}};
}
backends::BoundKernel bind_blas(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  const int columns = policy.as<BlasColumnsPolicy>().columns;
  const DenseMatrix matrix = matrix_of(layers[0], place);
  int8_t* wide_x = columns == 1 ? nullptr : reinterpret_cast<int8_t*>(place.zeroed(columns * matrix.shape.cols));
  const Blas blas{matrix, columns, wide_x};
  return {blas, {.scratch_bytes = blas.scratch_bytes(), .requantises = true}};
}

backends::BoundKernel bind_scaled_tokens(const backends::Policy& policy, Layers layers, int batch,
                                         backends::Place& place) {
  return plain::bind_plain_rows<gpu::kScaledTokenPolicies>(
      policy, gpu::ScaledElements(gpu::Int8Elements{}, gpu::column_scales_of(layers[0].scales)), *layers[0].matrix,
      batch, place);
}

using backends::Activations, backends::Op;
constexpr backends::Kernel kKernels[] = {
    plain::kPlainCopy,
    {.op = Op::matvec, .variant = "tuned", .policies = kTunedPolicies, .refuses = refuses, .bind = bind_tuned},
    {.op = Op::matvec,
     .variant = "chain",
     .policies = kChainPolicies,
     .whole_chain = true,
     .refuses = chain_refuses,
     .bind = bind_chain},
    {.op = Op::matvec, .variant = "blas", .policies = kBlasPolicies, .refuses = blas_refuses, .bind = bind_blas},
    plain::kPlainTokens<gpu::Int8Elements, gpu::kInt8TokenPolicies>,
    {.op = Op::matmul,
     .variant = "scaled_tokens",
     .policies = gpu::kScaledTokenPolicies,
     .activations = Activations::bf16,
     .group_cols = gpu::kScaleCols,
     .refuses = plain::refuses_plain_tokens<gpu::Int8Elements>,
     .bind = bind_scaled_tokens},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_int8::ECMV_GPU_NAMESPACE
