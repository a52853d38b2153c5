// GPU kernels of raw_bf16: the dense product of backends/gpu/products/dense_matmul.h in several forms, the copy, and
// `blas`, the matrix product of the platform's library. The library takes both factors as bf16, so tokens are rounded
// to it first. Rows that do not begin at multiples of 16 bytes are multiplied element by element.
#include "backends/gpu/host/blas.h"
#include "backends/gpu/products/dense_matmul.h"
#include "codecs/modelling/plain_gpu.h"

namespace ecmv::codecs::raw_bf16::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;
namespace plain = modelling::ECMV_GPU_NAMESPACE;

// Rounds to the nearest bf16, of two equally near ones to the even one; tokens are finite.
ECMV_GPU_KERNEL void round_tokens(gpu::Pointer<const float> from, gpu::Pointer<uint16_t> to, int64_t count) {
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i >= count) return;
  const uint32_t bits = gpu::bits_of(from[i]);
  to[i] = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

using backends::Layers;
using Launch = void(const gpu::DenseMatrix&, void* stream, const backends::MatmulArgs&, int batch);

// The registers hold as many tokens as the batch has, 8 at most. Where they take many registers, fewer waves fit.
template <typename Chunk, int kWaves, int kLoads, int kRows, int kResident>
Launch* launch_of(int batch) {
  constexpr int kFewer = kResident < 16 ? kResident : 16;
  if (batch == 1) return gpu::launch_matmul_rows<gpu::Bf16, Chunk, kWaves, kLoads, kRows, 1, kResident>;
  if (batch == 2) return gpu::launch_matmul_rows<gpu::Bf16, Chunk, kWaves, kLoads, kRows, 2, kFewer>;
  if (batch <= 4) return gpu::launch_matmul_rows<gpu::Bf16, Chunk, kWaves, kLoads, kRows, 4, kFewer>;
  return gpu::launch_matmul_rows<gpu::Bf16, Chunk, kWaves, kLoads, kRows, 8, kFewer>;
}

// Waves a block (8 where nothing is said), rows a wave, loads a lane and row (8 bytes each where narrow). `early`
// policies begin to load while the layer before ends, on devices that can. On an H200 each policy is the fastest for
// some batch; cuBLAS is the fastest in six of ten.
struct MatmulPolicy : backends::Policy {
  Launch* (*launch_of)(int batch);
  bool early;
};
constexpr MatmulPolicy kTunedPolicies[] = {
    {{"rows4_loads1_early"}, launch_of<gpu::uint4, 8, 1, 4, 24>, true},
    {{"waves16_rows2_loads4_early"}, launch_of<gpu::uint4, 16, 4, 2, 32>, true},
    {{"narrow_rows4_loads4_early"}, launch_of<gpu::uint2, 8, 4, 4, 24>, true},
};

struct Tuned {
  gpu::DenseMatrix matrix;
  Launch* launch;
  int batch;
  void operator()(void* stream, const backends::MatmulArgs& args) const { launch(matrix, stream, args, batch); }
};

backends::BoundKernel bind_tuned(const backends::Policy& policy, Layers layers, int batch, backends::Place& place) {
  const auto& tuned = policy.as<MatmulPolicy>();
  const backends::CompressedView& matrix = *layers[0].matrix;
  return Tuned{gpu::dense_matrix(matrix, modelling::plain_elements<std::byte>(matrix), place.device(), tuned.early),
               tuned.launch_of(batch), batch};
}

// The scratch holds the workspace, then the rounded tokens.
struct Blas {
  const uint16_t* elements;
  datasets::Shape shape;
  int batch;
  void operator()(void* stream, const backends::MatmulArgs& args) const {
    const int64_t count = batch * args.x_stride;
    auto* rounded = reinterpret_cast<uint16_t*>(args.scratch + gpu::kBlasWorkspaceBytes);
    gpu::launch(round_tokens, plain::a_thread_each(count), stream, args.x, rounded, count);
    gpu::blas_product(elements, shape, rounded, args.x_stride, batch, args.y, {args.scratch, stream});
  }
};

std::string blas_refuses(const backends::CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  const datasets::Shape shape = matrix.shape;
  if (shape.elements() == 0 || shape.rows % 8 != 0 || shape.cols % 8 != 0)
    return "The library's bf16 product takes rows and columns in multiples of 8.";
  if (shape.rows >= (int64_t{1} << 31) || shape.cols >= (int64_t{1} << 31))
    return "The library counts rows and columns in 32 bits.";
  return gpu::blas_missing();
}

// Rounding a token to bf16 errs by half of the last of eight bits. Matrix units truncate where they add, so each
// addition counts twice.
backends::BoundKernel bind_blas(const backends::Policy&, Layers layers, int batch, backends::Place&) {
  const datasets::Shape shape = layers[0].matrix->shape;
  return {Blas{modelling::plain_elements<uint16_t>(*layers[0].matrix), shape, batch},
          {.scratch_bytes = gpu::kBlasWorkspaceBytes + 2 * batch * (shape.cols + 32),
           .rounding = {.more_roundings = static_cast<int>(shape.cols), .narrowing = 0x1p-8}}};
}

// Tokens that are bf16 already need no rounding.
struct BlasTokens {
  const uint16_t* elements;
  datasets::Shape shape;
  int batch;
  void operator()(void* stream, const backends::MatmulArgs& args) const {
    gpu::blas_product(elements, shape, args.x_bf16, args.x_stride, batch, args.y, {args.scratch, stream}, args.y_bf16);
  }
};
backends::BoundKernel bind_blas_tokens(const backends::Policy&, Layers layers, int batch, backends::Place&) {
  const datasets::Shape shape = layers[0].matrix->shape;
  return {BlasTokens{modelling::plain_elements<uint16_t>(*layers[0].matrix), shape, batch},
          {.scratch_bytes = gpu::kBlasWorkspaceBytes,
           .rounding = gpu::blas_rounding(shape.cols),
           .takes_callers_tokens = true,
           .stores_bf16 = true}};
}

constexpr backends::Policy kBlasPolicies[] = {{"gemm"}};

using backends::Activations, backends::Op;
constexpr backends::Kernel kKernels[] = {
    plain::kPlainCopy,
    // With four tokens BLAS is 1.08 times as fast (2026-11-20-h200/batch).
    {.op = Op::matmul, .variant = "tuned", .policies = kTunedPolicies, .tokens_at_once = 2, .bind = bind_tuned},
    {.op = Op::matmul,
     .variant = "blas",
     .policies = kBlasPolicies,
     .most_tokens = backends::kMostTokens,
     .refuses = blas_refuses,
     .bind = bind_blas},
    // With 16 tokens BLAS is never slower and up to 1.05 times as fast (2026-11-27-h200/headline).
    backends::up_to(8, plain::kPlainTokens<gpu::Bf16Elements, gpu::kBf16TokenPolicies>),
    {.op = Op::matmul,
     .variant = "blas",
     .policies = kBlasPolicies,
     .activations = Activations::bf16,
     .most_tokens = backends::kMostTokens,
     .refuses = blas_refuses,
     .bind = bind_blas_tokens},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_bf16::ECMV_GPU_NAMESPACE
