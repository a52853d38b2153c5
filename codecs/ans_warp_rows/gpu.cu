// GPU kernels of ans_warp_rows: a group of 32 lanes decodes a row, and lane l takes quad l of every chunk of 128
// columns. x is read coalesced, and the lanes' sums are added at the end. Source: MatVANS white paper (Ludwig, Bamler),
// section 3.2.
#include "codecs/ans_warp_rows/format.h"
#include "codecs/modelling/quad_ans/quad_ans_gpu.h"

namespace ecmv::codecs::ans_warp_rows::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;
namespace quads = modelling::ECMV_GPU_NAMESPACE;
using LaneGroup = quads::QuadGroup;

struct RowKernels {
  static constexpr int kResidentWaves = 48, kGroupsAhead = 1;
  using Queue = quads::QuadQueue<kGroupsAhead>;

  ECMV_GPU_DEVICE static void multiply(const quads::QuadStream& stream, const quads::QuadSharedTable& table,
                                       Queue& words, int64_t row, gpu::Pointer<const int32_t> x,
                                       const gpu::Epilogue& epilogue) {
    const gpu::Pointer<const int32_t> x_quads = x + LaneGroup::lane();
    int32_t sum = 0;
    quads::for_each_quad(stream.chunks, table, words, [&](int chunk, uint32_t symbols) {
      sum =
          gpu::dot4(static_cast<int32_t>(symbols), gpu::load_shared_by_many(x_quads + chunk * LaneGroup::size()), sum);
    });
    const int32_t total = LaneGroup::reduce_add(sum);
    if (LaneGroup::lane() == 0) epilogue.store(row, total);
  }

  ECMV_GPU_DEVICE static void decode(const quads::QuadStream& stream, const quads::QuadSharedTable& table, Queue& words,
                                     int64_t row, gpu::Pointer<uint32_t> decoded) {
    const gpu::Pointer<uint32_t> out = decoded + (row * stream.chunks * LaneGroup::size() + LaneGroup::lane());
    quads::for_each_quad(stream.chunks, table, words,
                         [&](int chunk, uint32_t symbols) { out[chunk * LaneGroup::size()] = symbols; });
  }
};

// In nine published settings on an H200, 16 waves were within 2 % of the best in all and 4 waves the best in two.
constexpr quads::WavePolicy kPolicies[] = {{{"waves16"}, 16}, {{"waves4"}, 4}};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return quads::kQuadKernels<RowKernels, layout_of, kPolicies>; }

}  // namespace ecmv::codecs::ans_warp_rows::ECMV_GPU_NAMESPACE
