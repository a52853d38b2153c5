// GPU kernels of raw_int8: the three products of the MatVANS paper (one wave, one thread and one thread block a row), the tuned one of
// backends/gpu/dense_matvec.h, and the copy. All read 16 bytes at once where every row begins at a multiple of 16, else 4 or 1.
// Beside them `blas`, the product of matrices of the platform's library: such libraries have no int8 product with a vector, so
// x is one of 1, 8 or 16 columns, the others being zeros, and the requantisation is a launch of its own. And `chain`, all layers in one launch
// (chain_gpu.h).
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/gpu/blas.h"
#include "backends/gpu/dense_matvec.h"
#include "codecs/raw_int8/chain_gpu.h"
#include "codecs/raw_int8/format.h"

namespace ecmv::codecs::raw_int8::ECMV_GPU_NAMESPACE {
namespace {

constexpr int kThreadsOfBlock = 256;  // of thread_per_row, block_per_row and copy

// Sums chunks first, first + stride, ... of one row.
template <typename Chunk>
ECMV_GPU_DEVICE int32_t dot_strided(gpu::Pointer<const int8_t> row, gpu::Pointer<const int8_t> x, int chunks, int first, int stride) {
  const gpu::Pointer<const Chunk> w_chunks = gpu::cast<const Chunk>(row), x_chunks = gpu::cast<const Chunk>(x);
  int32_t sum = 0;
  for (int chunk = first; chunk < chunks; chunk += stride) sum = gpu::dot(w_chunks[chunk], gpu::load_shared_by_many(x_chunks + chunk), sum);
  return sum;
}

template <typename Chunk>
ECMV_GPU_KERNEL void wave_per_row(gpu::Pointer<const int8_t> w, int64_t rows, int cols, gpu::Pointer<const int8_t> x, gpu::Epilogue epilogue) {
  const int64_t row = gpu::block_index() * (gpu::block_size() / gpu::wave_size()) + gpu::Wave::group();
  if (row >= rows) return;
  const int32_t sum = dot_strided<Chunk>(w + row * cols, x, cols / static_cast<int>(sizeof(Chunk)), gpu::Wave::lane(), gpu::Wave::size());
  const int32_t total = gpu::Wave::reduce_add(sum);
  if (gpu::Wave::lane() == 0) epilogue.store(row, total);
}

template <typename Chunk>
ECMV_GPU_KERNEL void thread_per_row(gpu::Pointer<const int8_t> w, int64_t rows, int cols, gpu::Pointer<const int8_t> x, gpu::Epilogue epilogue) {
  const int64_t row = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (row < rows) epilogue.store(row, dot_strided<Chunk>(w + row * cols, x, cols / static_cast<int>(sizeof(Chunk)), 0, 1));
}

// Waves add up for themselves, then the first thread adds the waves' sums.
template <typename Chunk>
ECMV_GPU_KERNEL void block_per_row(gpu::Pointer<const int8_t> w, int64_t rows, int cols, gpu::Pointer<const int8_t> x, gpu::Epilogue epilogue) {
  const gpu::Pointer<int32_t> sums = gpu::cast<int32_t>(gpu::shared_memory());
  const int64_t row = gpu::block_index();
  const int32_t sum = dot_strided<Chunk>(w + row * cols, x, cols / static_cast<int>(sizeof(Chunk)), gpu::thread_index(), gpu::block_size());
  const int32_t of_wave = gpu::Wave::reduce_add(sum);
  if (gpu::Wave::lane() == 0) sums[gpu::Wave::group()] = of_wave;
  gpu::sync_block();
  if (gpu::thread_index() != 0) return;
  int32_t total = 0;
  for (int i = 0; i < gpu::block_size() / gpu::wave_size(); ++i) total += sums[i];
  epilogue.store(row, total);
}

// One thread copies 16 bytes; the thread behind the last whole 16 copies the rest.
ECMV_GPU_KERNEL void copy(gpu::Pointer<const int8_t> from, gpu::Pointer<int8_t> to, int64_t bytes) {
  const int64_t chunk = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (chunk < bytes / 16) {
    gpu::cast<gpu::uint4>(to)[chunk] = gpu::load_streaming(gpu::cast<const gpu::uint4>(from) + chunk);
  } else if (chunk == bytes / 16) {
    for (int64_t i = chunk * 16; i < bytes; ++i) to[i] = from[i];
  }
}

// One thread an element.
ECMV_GPU_KERNEL void copy_vector(gpu::Pointer<const int8_t> from, gpu::Pointer<int8_t> to, int64_t length) {
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i < length) to[i] = from[i];
}
ECMV_GPU_KERNEL void requantise_all(gpu::Pointer<const int32_t> sums, int64_t rows, gpu::Epilogue epilogue) {
  const int64_t row = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (row < rows) epilogue.store(row, sums[row]);
}

const int8_t* elements_of(const backends::KernelCall& call) {
  return reinterpret_cast<const int8_t*>(call.matrix->sections[kElements].bytes.data());
}

void launch_wave_per_row(const backends::KernelCall& call) {
  constexpr int kWaves[] = {4, 8, 16};
  const datasets::Shape shape = call.matrix->shape;
  const int waves = kWaves[call.tuning];
  gpu::for_widest_chunk(shape.cols, [&](auto chunk) {
    gpu::launch(wave_per_row<decltype(chunk)>, {(shape.rows + waves - 1) / waves, waves * call.device->wave_size, 0}, call.stream,
                elements_of(call), shape.rows, shape.cols, call.x, gpu::epilogue_of(call));
  });
}

void launch_thread_per_row(const backends::KernelCall& call) {
  const datasets::Shape shape = call.matrix->shape;
  gpu::for_widest_chunk(shape.cols, [&](auto chunk) {
    gpu::launch(thread_per_row<decltype(chunk)>, {(shape.rows + kThreadsOfBlock - 1) / kThreadsOfBlock, kThreadsOfBlock, 0}, call.stream,
                elements_of(call), shape.rows, shape.cols, call.x, gpu::epilogue_of(call));
  });
}

void launch_block_per_row(const backends::KernelCall& call) {
  const datasets::Shape shape = call.matrix->shape;
  const int64_t shared_bytes = kThreadsOfBlock / call.device->wave_size * static_cast<int64_t>(sizeof(int32_t));
  gpu::for_widest_chunk(shape.cols, [&](auto chunk) {
    gpu::launch(block_per_row<decltype(chunk)>, {shape.rows, kThreadsOfBlock, shared_bytes}, call.stream, elements_of(call), shape.rows, shape.cols,
                call.x, gpu::epilogue_of(call));
  });
}

void launch_tuned(const backends::KernelCall& call) {
  const int8_t* w = elements_of(call);
  switch (call.tuning) {
    case 0: return gpu::launch_dense<8, 8, 1, 24>(w, call, false);
    case 1: return gpu::launch_dense<8, 8, 1, 24>(w, call, true);
    case 2: return gpu::launch_dense<8, 4, 2, 24>(w, call, true);
    case 3: return gpu::launch_dense<16, 8, 1, 32>(w, call, true);
    case 4: return gpu::launch_dense<16, 8, 1, 32>(w, call, false);
    case 5: return gpu::launch_dense<4, 8, 1, 32>(w, call, false);
    case 6: return gpu::launch_dense<16, 4, 1, 48>(w, call, false);
    case 7: return gpu::launch_dense<8, 4, 2, 24>(w, call, false);
  }
}

void launch_copy(const backends::KernelCall& call) {
  const int64_t bytes = call.matrix->shape.elements(), chunks = (bytes + 15) / 16;
  gpu::launch(copy, {(chunks + kThreadsOfBlock - 1) / kThreadsOfBlock, kThreadsOfBlock, 0}, call.stream, elements_of(call), call.decoded, bytes);
}

// Columns of the library's product, by tuning. Of its scratch: the workspace, x in the first of the columns, all sums.
constexpr int kBlasColumns[] = {1, 8, 16};

int64_t blas_input_bytes(datasets::Shape shape, int tuning) { return (kBlasColumns[tuning] * shape.cols + 255) / 256 * 256; }

int64_t blas_scratch_bytes(const codecs::CompressedView& matrix, int tuning) {
  return gpu::kBlasWorkspaceBytes + blas_input_bytes(matrix.shape, tuning) + kBlasColumns[tuning] * matrix.shape.rows * static_cast<int64_t>(sizeof(int32_t));
}

std::string blas_refuses(const codecs::CompressedView& matrix, const backends::DeviceInfo&, int) {
  const datasets::Shape shape = matrix.shape;
  if (shape.elements() == 0 || shape.rows % 4 != 0 || shape.cols % 4 != 0) return "The library's int8 product takes rows and columns in multiples of 4.";
  if (shape.rows >= (int64_t{1} << 31) || shape.cols >= (int64_t{1} << 31)) return "The library counts rows and columns in 32 bits.";
  return gpu::blas_missing();
}

void launch_blas(const backends::KernelCall& call) {
  const datasets::Shape shape = call.matrix->shape;
  const int columns = kBlasColumns[call.tuning];
  const gpu::BlasPlace place{call.scratch, call.stream};
  const auto blocks = [](int64_t count) { return (count + kThreadsOfBlock - 1) / kThreadsOfBlock; };
  const int8_t* x = call.x;
  int32_t* sums = call.y;
  if (columns > 1) {
    int8_t* wide_x = reinterpret_cast<int8_t*>(call.scratch + gpu::kBlasWorkspaceBytes);
    gpu::launch(copy_vector, {blocks(shape.cols), kThreadsOfBlock, 0}, call.stream, call.x, wide_x, shape.cols);
    x = wide_x;
    sums = reinterpret_cast<int32_t*>(wide_x + blas_input_bytes(shape, call.tuning));
  }
  gpu::blas_product(elements_of(call), shape, x, columns, sums, place);
  gpu::launch(requantise_all, {blocks(shape.rows), kThreadsOfBlock, 0}, call.stream, sums, shape.rows, gpu::epilogue_of(call));
}

using Calls = std::span<const backends::KernelCall>;

// By tuning.
using ChainForms =
    std::tuple<ChainForm<4, 2, 6, 2, 2>, ChainForm<8, 1, 12, 1, 3>, ChainForm<2, 4, 12, 1, 3>, ChainForm<8, 1, 12, 1, 4>, ChainForm<8, 2, 6, 1, 2>, ChainForm<2, 2, 3, 1, 2>>;
constexpr int kMostSteps = 8;

// The same as numbers.
struct FormOfTuning {
  int slices, waves, depth, wide;
};
template <size_t... kTunings>
constexpr auto numbers_of_forms(std::index_sequence<kTunings...>) {
  return std::array<FormOfTuning, sizeof...(kTunings)>{
      {{std::tuple_element_t<kTunings, ChainForms>::kSlices, std::tuple_element_t<kTunings, ChainForms>::kWaves, std::tuple_element_t<kTunings, ChainForms>::kDepth,
        std::tuple_element_t<kTunings, ChainForms>::kWide}...}};
}
constexpr auto kChainForms = numbers_of_forms(std::make_index_sequence<std::tuple_size_v<ChainForms>>());

int64_t quads_of(datasets::Shape shape) { return (shape.rows + kQuad - 1) / kQuad; }
int64_t rows_of_block(datasets::Shape shape, const backends::DeviceInfo& device) { return (quads_of(shape) + device.compute_units - 1) / device.compute_units * kQuad; }
int64_t chain_shared_bytes(const FormOfTuning& form, int64_t cols, int64_t rows, const backends::DeviceInfo& device) {
  return int64_t{form.waves} * (form.depth * kQuad * form.wide * device.wave_size * kChunk + (form.depth + 1) * gpu::Arrival::kBytes) + cols + form.slices * rows * static_cast<int64_t>(sizeof(int32_t));
}
int64_t steps_of(const FormOfTuning& form, datasets::Shape shape, const backends::DeviceInfo& device) {
  const int64_t round = form.slices * kChunksOfLine, each = (shape.cols / kChunk + round - 1) / round * kChunksOfLine;
  const int64_t step = form.wide * device.wave_size;
  return (each + step - 1) / step;
}

std::string chain_refuses(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  const datasets::Shape shape = matrix.shape;
  if (!gpu::have_bulk_copies(device)) return "The kernel needs bulk copies to shared memory, which NVIDIA devices have since sm_90.";
  const FormOfTuning& form = kChainForms[static_cast<size_t>(tuning)];
  if (shape.elements() == 0 || shape.cols % kChunk != 0) return "The kernel takes columns in multiples of 16, and at least one row.";
  if (shape.rows >= int64_t{1} << 30) return "The kernel counts rows in 32 bits: fewer than 2^30 of them.";
  if (steps_of(form, shape, device) > kMostSteps)
    return "The kernel keeps x in registers: at most " + std::to_string(int64_t{form.slices} * kMostSteps * form.wide * device.wave_size * kChunk) + " columns.";
  if (const int64_t bytes = chain_shared_bytes(form, shape.cols, rows_of_block(shape, device), device); bytes > device.shared_bytes)
    return "The kernel needs " + std::to_string(bytes) + " bytes of shared memory a block, the device has " + std::to_string(device.shared_bytes) + ".";
  return "";
}

// What all launches of a chain have in common.
struct ChainPlan {
  int64_t words = 0;   // of the longest vector that is handed on
  int64_t blocks = 1;
  int64_t rows_of_block = 0, cols = 0, steps = 1;
};
ChainPlan plan_chain(Calls layers) {
  ChainPlan plan;
  const backends::DeviceInfo& device = *layers.front().device;
  for (const backends::KernelCall& call : layers) {
    const datasets::Shape shape = call.matrix->shape;
    plan.words = std::max(plan.words, quads_of(shape));
    plan.blocks = std::max(plan.blocks, std::min<int64_t>(device.compute_units, quads_of(shape)));
    plan.rows_of_block = std::max(plan.rows_of_block, rows_of_block(shape, device));
    plan.cols = std::max<int64_t>(plan.cols, shape.cols);
    plan.steps = std::max(plan.steps, steps_of(kChainForms[static_cast<size_t>(call.tuning)], shape, device));
  }
  return plan;
}

int64_t layers_bytes(Calls layers) { return (static_cast<int64_t>(layers.size() * sizeof(ChainLayer)) + 15) / 16 * 16; }

int64_t chain_scratch_bytes(Calls layers) { return gpu::Exchange::bytes(plan_chain(layers).words) + layers_bytes(layers); }

void prepare_chain(Calls layers) {
  const ChainPlan plan = plan_chain(layers);
  std::vector<gpu::uint4> stored(static_cast<size_t>(layers_bytes(layers) / 16));
  for (size_t i = 0; i < layers.size(); ++i) {
    const backends::KernelCall& call = layers[i];
    const datasets::Shape shape = call.matrix->shape;
    const ChainLayer layer{.w = elements_of(call),
                           .epilogue = gpu::epilogue_of(call),
                           .rows = static_cast<int>(shape.rows),
                           .chunks = static_cast<int>(shape.cols / kChunk),
                           .quads_each = static_cast<int>(quads_of(shape) / plan.blocks),
                           .longer_blocks = static_cast<int>(quads_of(shape) % plan.blocks)};
    std::memcpy(reinterpret_cast<std::byte*>(stored.data()) + i * sizeof(ChainLayer), &layer, sizeof(ChainLayer));
  }
  const backends::KernelCall& first = layers.front();
  gpu::Exchange::clear(first.scratch, plan.words, first.stream);
  gpu::store_on_stream(first.scratch + gpu::Exchange::bytes(plan.words), stored.data(), layers_bytes(layers), first.stream);
}

template <typename Form, int kSteps>
void launch_chain_of(Calls layers, const ChainPlan& plan) {
  const backends::KernelCall& first = layers.front();
  int64_t shared_bytes = chain_shared_bytes({Form::kSlices, Form::kWaves, Form::kDepth, Form::kWide}, plan.cols, plan.rows_of_block, *first.device);
  const bool layers_in_shared = shared_bytes + layers_bytes(layers) <= first.device->shared_bytes;
  if (layers_in_shared) shared_bytes += layers_bytes(layers);
  gpu::launch(chain<Form, kSteps>, {.grid = plan.blocks, .block = (Form::kWaves + Form::kFeeders) * first.device->wave_size, .shared_bytes = shared_bytes, .together = true},
              first.stream, reinterpret_cast<const ChainLayer*>(first.scratch + gpu::Exchange::bytes(plan.words)), static_cast<int>(layers.size()),
              gpu::Exchange(first.scratch, plan.words), first.x, static_cast<int>(plan.cols), static_cast<int>(plan.rows_of_block), layers_in_shared ? 1 : 0);
}

template <size_t kTuning = 0>
void launch_chain(Calls layers) {
  if constexpr (kTuning + 1 < std::tuple_size_v<ChainForms>)
    if (layers.front().tuning != static_cast<int>(kTuning)) return launch_chain<kTuning + 1>(layers);
  using Form = std::tuple_element_t<kTuning, ChainForms>;
  const ChainPlan plan = plan_chain(layers);
  if (plan.steps <= 1) return launch_chain_of<Form, 1>(layers, plan);
  if (plan.steps <= 2) return launch_chain_of<Form, 2>(layers, plan);
  if (plan.steps <= 4) return launch_chain_of<Form, 4>(layers, plan);
  launch_chain_of<Form, kMostSteps>(layers, plan);
}

// A column is counted in 32 bits inside the kernels.
std::string refuses(const codecs::CompressedView& matrix, const backends::DeviceInfo&, int) {
  return matrix.shape.cols < (int64_t{1} << 30) ? "" : "The kernel counts columns in 32 bits: at most 2^30 of them.";
}

constexpr backends::Tuning kWaveTunings[] = {{"waves4"}, {"waves8"}, {"waves16"}};
// Waves a block, loads a lane and row, rows a wave where more than one, waves that shall fit on a multiprocessor; early: begins to
// load while the layer before ends, where the device can.
constexpr backends::Tuning kTunedTunings[] = {{"waves8_loads8_fit24"},  {"waves8_loads8_fit24_early"}, {"waves8_loads4_rows2_fit24_early"},
                                              {"waves16_loads8_fit32_early"}, {"waves16_loads8_fit32"}, {"waves4_loads8_fit32"},
                                              {"waves16_loads4_fit48"}, {"waves8_loads4_rows2_fit24"}};
// Slices x parts of a block's waves that multiply, chunks a lane and step where more than one, steps in a wave's ring, and of these at most on
// their way. The last one is for devices with little shared memory.
constexpr backends::Tuning kChainTunings[] = {{"waves4x2_wide2_ring6_flight2"}, {"waves8x1_ring12_flight3"}, {"waves2x4_ring12_flight3"},
                                              {"waves8x1_ring12_flight4"}, {"waves8x2_ring6_flight2"}, {"waves2x2_ring3_flight2"}};
static_assert(std::size(kChainTunings) == std::tuple_size_v<ChainForms>);
constexpr backends::Tuning kBlasTunings[] = {{"gemm_columns1"}, {"gemm_columns8"}, {"gemm_columns16"}};

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "copy", .tunings = backends::kDefaultTuning, .refuses = refuses, .launch = launch_copy},
    {.op = backends::Op::matvec, .variant = "tuned", .tunings = kTunedTunings, .refuses = refuses, .launch = launch_tuned},
    {.op = backends::Op::matvec, .variant = "chain", .tunings = kChainTunings, .refuses = chain_refuses, .chain_scratch_bytes = chain_scratch_bytes, .prepare_chain = prepare_chain,
     .launch_chain = launch_chain<>},
    {.op = backends::Op::matvec, .variant = "wave_per_row", .tunings = kWaveTunings, .refuses = refuses, .launch = launch_wave_per_row},
    {.op = backends::Op::matvec, .variant = "thread_per_row", .tunings = backends::kDefaultTuning, .refuses = refuses, .launch = launch_thread_per_row},
    {.op = backends::Op::matvec, .variant = "block_per_row", .tunings = backends::kDefaultTuning, .refuses = refuses, .launch = launch_block_per_row},
    {.op = backends::Op::matvec, .variant = "blas", .tunings = kBlasTunings, .refuses = blas_refuses, .scratch_bytes = blas_scratch_bytes, .launch = launch_blas},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_int8::ECMV_GPU_NAMESPACE
