// GPU kernels of ans_warp_stripes: one group of 32 lanes a stripe of 32 rows, a lane a row. The loop is that of
// codecs/modelling/quad_ans/quad_ans_gpu.h; x is the same four bytes for all lanes and no sums meet. A matrix has 32 times fewer
// groups than in ans_warp_rows, so latency rules and small blocks spread best. Source: MatVANS white paper (Ludwig,
// Bamler), section 3.3.
#include "codecs/ans_warp_stripes/format.h"
#include "codecs/modelling/quad_ans/quad_ans_gpu.h"

namespace ecmv::codecs::ans_warp_stripes::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;
namespace quads = modelling::ECMV_GPU_NAMESPACE;
using LaneGroup = quads::QuadGroup;
// Few waves are there to wait for each other's loads: three groups ahead are about 20 steps.
using Queue = quads::QuadQueue<3>;

constexpr int kResidentWaves = 16;  // that must fit on a multiprocessor

ECMV_GPU_DEVICE int64_t stripe_of_group() {
  return gpu::block_index() * (gpu::block_size() / LaneGroup::size()) + LaneGroup::group();
}

template <typename Tables>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(quads::kQuadMostWaves* gpu::kLargestWave,
                                kResidentWaves / quads::kQuadMostWaves) void matvec(quads::QuadStream stream,
                                                                                    gpu::Pointer<const int8_t> x,
                                                                                    gpu::Epilogue epilogue) {
  const int64_t stripe = stripe_of_group();
  Queue words;
  if (stripe < stream.queues) words.begin(stream, stripe);
  const Tables tables(stream);
  if (stripe >= stream.queues) return;
  // The lanes hold x of 32 chunks, loaded 32 chunks before.
  const gpu::Pointer<const int32_t> x_quads = gpu::cast<const int32_t>(x);
  const auto load_x = [&](int chunk) { return chunk < stream.chunks ? gpu::load_shared_by_many(x_quads + chunk) : 0; };
  int32_t x_now = 0, x_ahead = load_x(LaneGroup::lane()), sum = 0;
  quads::for_each_quad(stream.chunks, tables, words, [&](int chunk, uint32_t symbols) {
    if (chunk % LaneGroup::size() == 0) {
      x_now = x_ahead;
      x_ahead = load_x(chunk + LaneGroup::size() + LaneGroup::lane());
    }
    sum = gpu::dot4(static_cast<int32_t>(symbols), LaneGroup::shuffle(x_now, chunk), sum);
  });
  epilogue.store(stripe * kStripeRows + LaneGroup::lane(), sum);
}

template <typename Tables>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(quads::kQuadMostWaves* gpu::kLargestWave,
                                kResidentWaves / quads::kQuadMostWaves) void decode(quads::QuadStream stream,
                                                                                    gpu::Pointer<int8_t> decoded) {
  const int64_t stripe = stripe_of_group();
  Queue words;
  if (stripe < stream.queues) words.begin(stream, stripe);
  const Tables tables(stream);
  if (stripe >= stream.queues) return;
  const gpu::Pointer<uint32_t> out =
      gpu::cast<uint32_t>(decoded) + (stripe * kStripeRows + LaneGroup::lane()) * stream.chunks;
  quads::for_each_quad(stream.chunks, tables, words, [&](int chunk, uint32_t symbols) { out[chunk] = symbols; });
}

using backends::Layers;

template <typename Tables>
quads::QuadLaunch launch_of(const backends::Policy& policy, Layers layers, const backends::Place& place) {
  return quads::quad_launch<Tables>(policy, *layers[0].matrix, layout_of(layers[0].matrix->shape), place);
}
template <typename Tables>
backends::BoundKernel bind_decode(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  return quads::QuadDecode{launch_of<Tables>(policy, layers, place), decode<Tables>};
}
template <typename Tables>
backends::BoundKernel bind_matvec(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  return {quads::QuadMultiply{launch_of<Tables>(policy, layers, place), matvec<Tables>}, {.requantises = true}};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode,
     .variant = "register_tables",
     .policies = quads::kQuadWavePolicies,
     .refuses = quads::refuses_quad_kernel,
     .bind = bind_decode<quads::QuadRegisterTables>},
    {.op = backends::Op::decode,
     .variant = "shared_table",
     .policies = quads::kQuadWavePolicies,
     .refuses = quads::refuses_quad_kernel,
     .bind = bind_decode<quads::QuadSharedTable>},
    {.op = backends::Op::matvec,
     .variant = "register_tables",
     .policies = quads::kQuadWavePolicies,
     .refuses = quads::refuses_quad_kernel,
     .bind = bind_matvec<quads::QuadRegisterTables>},
    {.op = backends::Op::matvec,
     .variant = "shared_table",
     .policies = quads::kQuadWavePolicies,
     .refuses = quads::refuses_quad_kernel,
     .bind = bind_matvec<quads::QuadSharedTable>},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::ans_warp_stripes::ECMV_GPU_NAMESPACE
