// GPU kernels of raw_bf16: the dense product of backends/gpu/dense_matmul.h in several forms, the copy, and beside them `blas`, the
// product of matrices of the platform's library, which takes both factors as bf16: tokens are rounded to it first. Rows that do not begin at
// multiples of 16 bytes are multiplied element by element.
#include "backends/gpu/blas.h"
#include "backends/gpu/dense_matmul.h"
#include "codecs/raw_bf16/format.h"

namespace ecmv::codecs::raw_bf16::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

constexpr int kThreadsOfBlock = 256;  // of the copy and of the rounding

// One thread copies 16 bytes; the thread behind the last whole 16 copies the rest.
ECMV_GPU_KERNEL void copy(gpu::Pointer<const uint16_t> from, gpu::Pointer<uint16_t> to, int64_t elements) {
  const int64_t chunk = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (chunk < elements / 8) {
    gpu::cast<gpu::uint4>(to)[chunk] = gpu::load_streaming(gpu::cast<const gpu::uint4>(from) + chunk);
  } else if (chunk == elements / 8) {
    for (int64_t i = chunk * 8; i < elements; ++i) to[i] = from[i];
  }
}

// To the nearest bf16, of two equally near ones the even one; tokens are finite.
ECMV_GPU_KERNEL void round_tokens(gpu::Pointer<const float> from, gpu::Pointer<uint16_t> to, int64_t count) {
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i >= count) return;
  const uint32_t bits = gpu::bits_of(from[i]);
  to[i] = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

const std::byte* elements_of(const backends::KernelCall& call) { return call.matrix->sections[kElements].bytes.data(); }
int64_t blocks_of(int64_t threads) { return (threads + kThreadsOfBlock - 1) / kThreadsOfBlock; }

void launch_copy(const backends::KernelCall& call) {
  const int64_t elements = call.matrix->shape.elements();
  gpu::launch(copy, {blocks_of(elements / 8 + 1), kThreadsOfBlock, 0}, call.stream, reinterpret_cast<const uint16_t*>(elements_of(call)),
              reinterpret_cast<uint16_t*>(call.decoded), elements);
}

// Tokens in registers: as many as the batch has, 8 at most. Where they take many registers, fewer waves fit.
template <typename Chunk, int kWaves, int kLoads, int kRows, int kResident>
void launch_form(const backends::KernelCall& call, bool early) {
  constexpr int kFewer = kResident < 16 ? kResident : 16;
  const std::byte* w = elements_of(call);
  if (call.batch == 1) return gpu::launch_matmul_rows<gpu::Bf16, Chunk, kWaves, kLoads, kRows, 1, kResident>(w, call, early);
  if (call.batch == 2) return gpu::launch_matmul_rows<gpu::Bf16, Chunk, kWaves, kLoads, kRows, 2, kFewer>(w, call, early);
  if (call.batch <= 4) return gpu::launch_matmul_rows<gpu::Bf16, Chunk, kWaves, kLoads, kRows, 4, kFewer>(w, call, early);
  gpu::launch_matmul_rows<gpu::Bf16, Chunk, kWaves, kLoads, kRows, 8, kFewer>(w, call, early);
}

void launch_tuned(const backends::KernelCall& call) {
  switch (call.tuning) {
    case 0: return launch_form<gpu::uint4, 8, 1, 4, 24>(call, true);
    case 1: return launch_form<gpu::uint4, 16, 4, 2, 32>(call, true);
    case 2: return launch_form<gpu::uint2, 8, 4, 4, 24>(call, true);
    case 3: return launch_form<gpu::uint2, 8, 1, 8, 16>(call, true);
    case 4: return launch_form<gpu::uint4, 8, 4, 2, 24>(call, false);
  }
}

// Of the scratch: the workspace, then the rounded tokens.
int64_t blas_scratch_bytes(const codecs::CompressedView& matrix, int) {
  return gpu::kBlasWorkspaceBytes + 2 * backends::kMaxBatch * (matrix.shape.cols + 32);
}

std::string blas_refuses(const codecs::CompressedView& matrix, const backends::DeviceInfo&, int) {
  const datasets::Shape shape = matrix.shape;
  if (shape.elements() == 0 || shape.rows % 8 != 0 || shape.cols % 8 != 0) return "The library's bf16 product takes rows and columns in multiples of 8.";
  if (shape.rows >= (int64_t{1} << 31) || shape.cols >= (int64_t{1} << 31)) return "The library counts rows and columns in 32 bits.";
  return gpu::blas_missing();
}

// A token's bf16 is off by half of its last of eight bits; matrix units cut where they add, so each addition counts twice.
backends::ProductRounding blas_rounding(const codecs::CompressedView& matrix, int) {
  return {.more_roundings = static_cast<int>(matrix.shape.cols), .narrowing = 0x1p-8};
}

void launch_blas(const backends::KernelCall& call) {
  const int64_t count = call.batch * call.x_stride;
  auto* rounded = reinterpret_cast<uint16_t*>(call.scratch + gpu::kBlasWorkspaceBytes);
  gpu::launch(round_tokens, {blocks_of(count), kThreadsOfBlock, 0}, call.stream, call.x_tokens, rounded, count);
  gpu::blas_product(reinterpret_cast<const uint16_t*>(elements_of(call)), call.matrix->shape, rounded, call.x_stride, call.batch, call.y_tokens, {call.scratch, call.stream});
}

// Waves a block (8 where nothing is said), rows a wave, loads a lane and row, 8 bytes each where narrow; early: begins to load while the layer
// before ends, where the device can.
constexpr backends::Tuning kTunedTunings[] = {
    {"rows4_loads1_early"}, {"waves16_rows2_loads4_early"}, {"narrow_rows4_loads4_early"}, {"narrow_rows8_loads1_early"}, {"rows2_loads4"}};
constexpr backends::Tuning kBlasTunings[] = {{"gemm"}};

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "copy", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = launch_copy},
    {.op = backends::Op::matmul, .variant = "tuned", .tunings = kTunedTunings, .refuses = backends::refuses_nothing, .launch = launch_tuned},
    {.op = backends::Op::matmul, .variant = "blas", .tunings = kBlasTunings, .refuses = blas_refuses, .scratch_bytes = blas_scratch_bytes, .rounding = blas_rounding, .launch = launch_blas},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_bf16::ECMV_GPU_NAMESPACE
