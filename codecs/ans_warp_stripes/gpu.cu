// GPU kernels of ans_warp_stripes: a group of 32 lanes decodes a stripe of 32 rows, a lane a row. All lanes need the
// same four bytes of x, and a lane's sum is its row's result. A matrix has a 32nd of the groups that ans_warp_rows has,
// so latency decides, and small blocks spread best. Source: MatVANS white paper (Ludwig, Bamler), section 3.3.
#include "codecs/ans_warp_stripes/format.h"
#include "codecs/modelling/quad_ans/quad_ans_gpu.h"

namespace ecmv::codecs::ans_warp_stripes::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;
namespace quads = modelling::ECMV_GPU_NAMESPACE;
using LaneGroup = quads::QuadGroup;

struct StripeKernels {
  // With few waves nobody hides a load's latency, so three groups of words are loaded ahead, about 20 steps.
  static constexpr int kResidentWaves = 16, kGroupsAhead = 3;
  using Queue = quads::QuadQueue<kGroupsAhead>;

  ECMV_GPU_DEVICE static void multiply(const quads::QuadStream& stream, const quads::QuadSharedTable& table,
                                       Queue& words, int64_t stripe, gpu::Pointer<const int32_t> x,
                                       const gpu::Epilogue& epilogue) {
    // The lanes hold x of 32 chunks, loaded 32 chunks before.
    const auto load_x = [&](int chunk) { return chunk < stream.chunks ? gpu::load_shared_by_many(x + chunk) : 0; };
    int32_t x_now = 0, x_ahead = load_x(LaneGroup::lane()), sum = 0;
    quads::for_each_quad(stream.chunks, table, words, [&](int chunk, uint32_t symbols) {
      if (chunk % LaneGroup::size() == 0) {
        x_now = x_ahead;
        x_ahead = load_x(chunk + LaneGroup::size() + LaneGroup::lane());
      }
      sum = gpu::dot4(static_cast<int32_t>(symbols), LaneGroup::shuffle(x_now, chunk), sum);
    });
    epilogue.store(stripe * kStripeRows + LaneGroup::lane(), sum);
  }

  ECMV_GPU_DEVICE static void decode(const quads::QuadStream& stream, const quads::QuadSharedTable& table, Queue& words,
                                     int64_t stripe, gpu::Pointer<uint32_t> decoded) {
    const gpu::Pointer<uint32_t> out = decoded + (stripe * kStripeRows + LaneGroup::lane()) * stream.chunks;
    quads::for_each_quad(stream.chunks, table, words, [&](int chunk, uint32_t symbols) { out[chunk] = symbols; });
  }
};

// In all published settings on an H200, 4 waves were within 2 % of the best; 8 took at least 12 % longer on an H100.
constexpr quads::WavePolicy kPolicies[] = {{{"waves4"}, 4}};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return quads::kQuadKernels<StripeKernels, layout_of, kPolicies>; }

}  // namespace ecmv::codecs::ans_warp_stripes::ECMV_GPU_NAMESPACE
