// GPU kernels of ans_warp_stripes: one group of 32 lanes a stripe of 32 rows, a lane a row. The loop is that of
// codecs/modelling/quad_ans_gpu.h; x is the same four bytes for all lanes and no sums meet. A matrix has 32 times fewer groups than in
// ans_warp_rows, so latency rules and small blocks spread best. Source: MatVANS white paper (Ludwig, Bamler), section 3.3.
#include "backends/gpu/requantise.h"
#include "codecs/ans_warp_stripes/format.h"
#include "codecs/modelling/quad_ans_gpu.h"

namespace ecmv::codecs::ans_warp_stripes::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;
namespace quads = modelling::ECMV_GPU_NAMESPACE;
using Group = quads::QuadGroup;

ECMV_GPU_DEVICE int64_t stripe_of_group() { return gpu::block_index() * (gpu::block_size() / Group::size()) + Group::group(); }

template <typename Tables>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(quads::kQuadMostWaves * gpu::kLargestWave, quads::kQuadResidentWaves / quads::kQuadMostWaves)
void matvec(quads::QuadStream stream, gpu::Pointer<const int8_t> x, gpu::Epilogue epilogue) {
  const Tables tables(stream);
  const int64_t stripe = stripe_of_group();
  if (stripe >= stream.queues) return;
  const gpu::Pointer<const int32_t> x_quads = gpu::cast<const int32_t>(x);
  int32_t sum = 0;
  quads::for_each_quad(stream, tables, stripe, [&](int chunk, uint32_t symbols) {
    sum = gpu::dot4(static_cast<int32_t>(symbols), gpu::load_shared_by_many(x_quads + chunk), sum);
  });
  epilogue.store(stripe * kStripeRows + Group::lane(), sum);
}

template <typename Tables>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(quads::kQuadMostWaves * gpu::kLargestWave, quads::kQuadResidentWaves / quads::kQuadMostWaves)
void decode(quads::QuadStream stream, gpu::Pointer<int8_t> decoded) {
  const Tables tables(stream);
  const int64_t stripe = stripe_of_group();
  if (stripe >= stream.queues) return;
  const gpu::Pointer<uint32_t> out = gpu::cast<uint32_t>(decoded) + (stripe * kStripeRows + Group::lane()) * stream.chunks;
  quads::for_each_quad(stream, tables, stripe, [&](int chunk, uint32_t symbols) { out[chunk] = symbols; });
}

template <typename Tables>
void launch_matvec(const backends::KernelCall& call) {
  const modelling::QuadLayout layout = layout_of(call.matrix->shape);
  gpu::launch(matvec<Tables>, quads::quad_launch_shape(call, layout, Tables::kSharedBytes), call.stream, quads::quad_stream(*call.matrix, layout),
              call.x, gpu::epilogue_of(call));
}

template <typename Tables>
void launch_decode(const backends::KernelCall& call) {
  const modelling::QuadLayout layout = layout_of(call.matrix->shape);
  gpu::launch(decode<Tables>, quads::quad_launch_shape(call, layout, Tables::kSharedBytes), call.stream, quads::quad_stream(*call.matrix, layout),
              call.decoded);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "register_tables", .tunings = quads::kQuadWaveTunings, .refuses = quads::refuses_quad_kernel, .launch = launch_decode<quads::QuadRegisterTables>},
    {.op = backends::Op::decode, .variant = "shared_table", .tunings = quads::kQuadWaveTunings, .refuses = quads::refuses_quad_kernel, .launch = launch_decode<quads::QuadSharedTable>},
    {.op = backends::Op::matvec, .variant = "register_tables", .tunings = quads::kQuadWaveTunings, .refuses = quads::refuses_quad_kernel, .launch = launch_matvec<quads::QuadRegisterTables>},
    {.op = backends::Op::matvec, .variant = "shared_table", .tunings = quads::kQuadWaveTunings, .refuses = quads::refuses_quad_kernel, .launch = launch_matvec<quads::QuadSharedTable>},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::ans_warp_stripes::ECMV_GPU_NAMESPACE
