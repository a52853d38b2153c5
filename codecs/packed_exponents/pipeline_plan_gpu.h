// How a pipeline (pipeline_gpu.h) divides a product among a device's multiprocessors. Host code.
#pragma once

#include <algorithm>

#include "backends/kernel.h"
#include "codecs/packed_exponents/pipeline_stages_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

struct SizedPipeline {
  PipelinePlan plan;
  int64_t blocks = 0, bytes = 0;  // bytes of shared memory; 0 where nothing fits
  double clocks = 0;              // reckoned
  int64_t added_places = 0;  // for LastShare: lane groups of the tiles that runs divide, of each block of a cluster
  int64_t scratch_bytes(int64_t token_tiles) const {
    return added_places * most_shares(plan.counted.number(), plan.run.number()) / plan.cluster * token_tiles /
           plan.cluster * gpu::kTokenLanes * int64_t{sizeof(gpu::uint4)};
  }
};

// The plan that is done first, by rates of an H200 under load (1.5 GHz): bytes a clock of its memory; clocks of a step,
// with up to 32 tokens, in one piece, or in two (tile_product_gpu.h), for each warpgroup, and for each of its tiles of
// eight tokens; clocks of a tile besides its steps, and of a launch whose blocks leave no room for half of the next
// one's. Those of steps are fitted to 305 products of 20 shapes, and so are joints of 256 tokens. Joints of fewer are
// fitted to 90 products of nine shapes. In these 37 cases the chosen plan was 0.3 % slower than the fastest of those
// measured on average, and 4 % at most (3072 x 8192, 128 tokens; NOTES.md).
inline constexpr double kMemoryBytes = 2600, kStepOf32 = 730, kStep = 540, kStepOfTwo = 1000, kWarpgroupStepOf32 = 110,
                        kWarpgroupStep = 195, kTokensStep = 15, kOwnTime = 1850, kBeginTime = 1000;

// Clocks in which blocks join sums: of a cluster's exchange, and for each byte that a block gets; of LastShare, and for
// each byte of a tile's sums.
struct JointRates {
  double exchange, exchanged_byte, add, added_byte;
};
inline constexpr JointRates kJoints = {150, 1.0 / 13, 1400, 1.0 / 32}, kJointsOf256 = {2300, 0, 1900, 1.0 / 24};

class PipelinePlanner {
 public:
  PipelinePlanner(int token_tiles, int batch, datasets::Shape shape, const backends::DeviceInfo& device)
      : token_tiles_(token_tiles),
        rows_(shape.rows),
        groups_(quotient_up(shape.cols, kGroupColumns)),
        token_blocks_(quotient_up(batch, 8 * token_tiles)),
        block_tokens_(equal_blocks(batch, static_cast<int>(token_blocks_))),
        room_(device.shared_bytes),
        units_(device.compute_units) {}

  // Tries tiles as a whole, in equal runs of all steps but those of whole rounds, and in parts of one run each, which
  // clusters may have.
  SizedPipeline best() {
    for (int warpgroups = 1; warpgroups <= kMostWarpgroups; ++warpgroups) {
      const int64_t tiles = quotient_up(rows_, warpgroups * kWarpgroupRows) * token_blocks_;
      consider({warpgroups, tiles, tiles / units_, groups_, groups_}, 1);
      for (int64_t whole = std::max<int64_t>(0, tiles / units_ - 1); whole <= tiles / units_; ++whole)
        if (const int64_t rest = tiles - whole * units_; rest > 0)
          consider({warpgroups, tiles, whole, quotient_up(rest * groups_, units_), groups_}, 1);
      for (int64_t parts = 2; tiles * parts <= units_ && parts <= groups_; ++parts)
        if (const int64_t run = quotient_up(groups_, parts); quotient_up(groups_, run) == parts)
          for (const int cluster : {1, 2, 4, 8})
            if (parts % cluster == 0 && (cluster == 1 || takes(cluster, tiles * parts)))
              consider({warpgroups, tiles, 0, run, parts * run}, cluster);
    }
    return best_;
  }

 private:
  struct Division {
    int warpgroups;
    int64_t tiles, whole_rounds, run;
    int64_t counted;  // a tile's steps, as runs count them
  };

  int64_t token_tiles_, rows_, groups_, token_blocks_;
  int block_tokens_;
  int64_t room_, units_;
  SizedPipeline best_;

  static int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
  static double number(int64_t value) { return static_cast<double>(value); }

  // A cluster runs on neighbouring multiprocessors, so not all of them have one: of 132, clusters of 4 and 8 blocks
  // occupy 120 at once on an H200.
  bool takes(int cluster, int64_t blocks) const {
    return cluster_takes(static_cast<int>(token_tiles_), cluster) && (cluster == 2 || 8 * blocks <= 7 * units_);
  }

  // Clocks in which the shares of a tile join their sums.
  double joints(int warpgroups, int64_t shares, int cluster) const {
    const JointRates& rates = token_tiles_ < 32 ? kJoints : kJointsOf256;
    const int64_t sums = shares / cluster * warpgroups * kWarpgroupRows * token_tiles_ / cluster;
    double clocks = shares > cluster ? rates.add + number(32 * sums) * rates.added_byte : 0;
    if (cluster > 1)
      clocks += rates.exchange + number(warpgroups * gpu::kWarpgroup) *
                                     given_bytes(static_cast<int>(token_tiles_), cluster) * rates.exchanged_byte;
    return clocks;
  }

  void consider(const Division& of, int cluster) {
    const int field_bytes = of.warpgroups * gpu::kWarpgroup * kBlockFieldBytes,
              bytes = pipeline_bytes(static_cast<int>(token_tiles_), field_bytes);
    if (bytes > room_) return;
    const int64_t rows = of.warpgroups * kWarpgroupRows, divided = of.tiles - of.whole_rounds * units_,
                  blocks = of.whole_rounds > 0 ? units_ : quotient_up(divided * of.counted, of.run),
                  shares = divided == 0 ? 1 : most_shares(static_cast<int>(of.counted), static_cast<int>(of.run));
    // Tiles of a thread block, or parts. Runs that do not end with a tile's parts have the end of one and the beginning
    // of another.
    const int64_t parts = of.whole_rounds + (divided > 0 ? quotient_up(of.run, of.counted) : 0) +
                          (shares > 1 && of.counted % of.run != 0 ? 1 : 0);
    // Clocks of a step: what its bytes take of memory, what its lane groups do, or its products.
    const double warpgroups = of.warpgroups, tiles_of_tokens = number(token_tiles_),
                 lane_groups = token_tiles_ == 4 ? kStepOf32 + warpgroups * kWarpgroupStepOf32
                                                 : (token_tiles_ < 32 ? kStep : kStepOfTwo) +
                                                       warpgroups * (kWarpgroupStep + kTokensStep * tiles_of_tokens),
                 step = std::max({number(field_bytes * blocks) / number(std::min(token_blocks_, blocks)) / kMemoryBytes,
                                  lane_groups, 32 * warpgroups * tiles_of_tokens}),
                 clocks = number(of.whole_rounds * groups_ + (divided > 0 ? of.run : 0)) * step +
                          number(parts) * kOwnTime + (2 * blocks > units_ ? kBeginTime : 0) +
                          joints(of.warpgroups, shares, cluster);
    if (best_.bytes != 0 && clocks >= best_.clocks) return;
    const auto small = [](int64_t value) { return static_cast<int>(value); };
    best_ = {{.warpgroups = of.warpgroups,
              .groups = small(groups_),
              .counted = gpu::Divisor(small(of.counted)),
              .token_blocks = gpu::Divisor(small(token_blocks_)),
              .block_tokens = block_tokens_,
              .tiles = small(of.tiles),
              .whole_rounds = small(of.whole_rounds),
              .run = gpu::Divisor(small(of.run)),
              .cluster = cluster},
             blocks,
             bytes,
             clocks,
             shares > cluster ? divided * (rows / kBlockRows) * cluster : 0};
  }
};

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
