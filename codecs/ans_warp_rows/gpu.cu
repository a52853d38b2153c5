// GPU kernels of ans_warp_rows: one group of 32 lanes a row, lane l with quad l of every chunk of 128 columns. The loop
// is that of codecs/modelling/quad_ans/quad_ans_gpu.h; x is read coalesced, the lanes' sums meet at the end. `register_tables`
// is the paper's method, `shared_table` the same with the model in shared memory. Source: MatVANS white paper (Ludwig,
// Bamler), section 3.2.
#include "codecs/ans_warp_rows/format.h"
#include "codecs/modelling/quad_ans/quad_ans_gpu.h"

namespace ecmv::codecs::ans_warp_rows::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;
namespace quads = modelling::ECMV_GPU_NAMESPACE;
using LaneGroup = quads::QuadGroup;
using Queue = quads::QuadQueue<1>;

[[maybe_unused]] constexpr int kResidentWaves = 48;  // that must fit on a multiprocessor

ECMV_GPU_DEVICE int64_t row_of_group() {
  return gpu::block_index() * (gpu::block_size() / LaneGroup::size()) + LaneGroup::group();
}

template <typename Tables>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(quads::kQuadMostWaves* gpu::kLargestWave,
                                kResidentWaves / quads::kQuadMostWaves) void matvec(quads::QuadStream stream,
                                                                                    gpu::Pointer<const int8_t> x,
                                                                                    gpu::Epilogue epilogue) {
  const int64_t row = row_of_group();
  Queue words;
  if (row < stream.queues) words.begin(stream, row);
  const Tables tables(stream);
  if (row >= stream.queues) return;
  const gpu::Pointer<const int32_t> x_quads = gpu::cast<const int32_t>(x) + LaneGroup::lane();
  int32_t sum = 0;
  quads::for_each_quad(stream.chunks, tables, words, [&](int chunk, uint32_t symbols) {
    sum = gpu::dot4(static_cast<int32_t>(symbols), gpu::load_shared_by_many(x_quads + chunk * LaneGroup::size()), sum);
  });
  const int32_t total = LaneGroup::reduce_add(sum);
  if (LaneGroup::lane() == 0) epilogue.store(row, total);
}

template <typename Tables>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(quads::kQuadMostWaves* gpu::kLargestWave,
                                kResidentWaves / quads::kQuadMostWaves) void decode(quads::QuadStream stream,
                                                                                    gpu::Pointer<int8_t> decoded) {
  const int64_t row = row_of_group();
  Queue words;
  if (row < stream.queues) words.begin(stream, row);
  const Tables tables(stream);
  if (row >= stream.queues) return;
  const gpu::Pointer<uint32_t> out =
      gpu::cast<uint32_t>(decoded) + (row * stream.chunks * LaneGroup::size() + LaneGroup::lane());
  quads::for_each_quad(stream.chunks, tables, words,
                       [&](int chunk, uint32_t symbols) { out[chunk * LaneGroup::size()] = symbols; });
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

}  // namespace ecmv::codecs::ans_warp_rows::ECMV_GPU_NAMESPACE
