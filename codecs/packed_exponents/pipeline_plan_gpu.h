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
  int64_t added_places = 0;       // for LastShare: lane groups of the tiles that runs divide, of a pair's halves each
  int64_t scratch_bytes(int64_t token_tiles) const {
    const int of_share = plan.pairs ? 2 : 1;
    return added_places * most_shares(plan.counted.number(), plan.run.number()) / of_share * token_tiles / of_share *
           gpu::kTokenLanes * int64_t{sizeof(gpu::uint4)};
  }
};

// The plan that is done first, by rates of an H200 under load (1.5 GHz): bytes a clock of its memory; clocks of a step,
// with up to 32 tokens, in one piece, or in two (tile_product_gpu.h), for each warpgroup, and for each of its tiles of
// eight tokens; clocks of a tile besides its steps, and of a launch whose blocks leave no room for half of the next
// one's; clocks of sums that LastShare adds, and bytes of them a clock; clocks of an exchange in pairs. The first is
// that of earlier fits, the others are fitted to 305 products of 20 shapes. In these 79 cases the chosen plan was 0.4 %
// slower than the fastest of those measured on average, and 8 % at most (4096 x 1024, 64 tokens; NOTES.md).
inline constexpr double kMemoryBytes = 2600, kStepOf32 = 730, kStep = 540, kStepOfTwo = 1000, kWarpgroupStepOf32 = 110,
                        kWarpgroupStep = 195, kTokensStep = 15, kOwnTime = 1850, kBeginTime = 700, kAddTime = 1900,
                        kAddedBytes = 24, kPairTime = 2300;

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

  // Tries tiles as a whole, in equal runs of all steps but those of whole rounds, and in parts of one run each.
  SizedPipeline best() {
    for (int warpgroups = 1; warpgroups <= kMostWarpgroups; ++warpgroups) {
      const int64_t tiles = quotient_up(rows_, warpgroups * kWarpgroupRows) * token_blocks_;
      consider(warpgroups, tiles, tiles / units_, groups_, groups_);
      for (int64_t whole = std::max<int64_t>(0, tiles / units_ - 1); whole <= tiles / units_; ++whole)
        if (const int64_t rest = tiles - whole * units_; rest > 0)
          consider(warpgroups, tiles, whole, quotient_up(rest * groups_, units_), groups_);
      for (int64_t parts = 2; tiles * parts <= units_ && parts <= groups_; ++parts)
        if (const int64_t run = quotient_up(groups_, parts); quotient_up(groups_, run) == parts)
          consider(warpgroups, tiles, 0, run, parts * run);
    }
    return best_;
  }

 private:
  int64_t token_tiles_, rows_, groups_, token_blocks_;
  int block_tokens_;
  int64_t room_, units_;
  SizedPipeline best_;

  static int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
  static double number(int64_t value) { return static_cast<double>(value); }

  // `counted`: a tile's steps, as runs count them.
  void consider(int warpgroups, int64_t tiles, int64_t whole_rounds, int64_t run, int64_t counted) {
    const int field_bytes = static_cast<int>(warpgroups) * gpu::kWarpgroup * kBlockFieldBytes,
              bytes = pipeline_bytes(static_cast<int>(token_tiles_), field_bytes);
    if (bytes > room_) return;
    const int64_t rows = warpgroups * kWarpgroupRows, divided = tiles - whole_rounds * units_,
                  blocks = whole_rounds > 0 ? units_ : quotient_up(divided * counted, run),
                  shares = divided == 0 ? 1 : most_shares(static_cast<int>(counted), static_cast<int>(run));
    // Tiles of a thread block, or parts. Runs that do not end with a tile's parts have the end of one and the beginning
    // of another.
    const int64_t parts =
        whole_rounds + (divided > 0 ? quotient_up(run, counted) : 0) + (shares > 1 && counted % run != 0 ? 1 : 0);
    const bool pairs = whole_rounds == 0 && shares % 2 == 0 && counted % run == 0;
    const int64_t of_pair = pairs ? 2 : 1;  // halves of sums, and shares
    // Clocks of a step: what its bytes take of memory, what its lane groups do, or its products.
    const double tiles_of_tokens = number(token_tiles_),
                 lane_groups = token_tiles_ == 4
                                   ? kStepOf32 + number(warpgroups) * kWarpgroupStepOf32
                                   : (token_tiles_ < 32 ? kStep : kStepOfTwo) +
                                         number(warpgroups) * (kWarpgroupStep + kTokensStep * tiles_of_tokens),
                 step = std::max({number(field_bytes * blocks) / number(std::min(token_blocks_, blocks)) / kMemoryBytes,
                                  lane_groups, number(32 * warpgroups) * tiles_of_tokens}),
                 added_bytes = number(shares / of_pair * rows * token_tiles_ / of_pair * 32),
                 clocks = number(whole_rounds * groups_ + (divided > 0 ? run : 0)) * step + number(parts) * kOwnTime +
                          (2 * blocks > units_ ? kBeginTime : 0) + (pairs ? kPairTime : 0) +
                          (shares > of_pair ? kAddTime + added_bytes / kAddedBytes : 0);
    if (best_.bytes != 0 && clocks >= best_.clocks) return;
    const auto small = [](int64_t value) { return static_cast<int>(value); };
    best_ = {{.warpgroups = warpgroups,
              .groups = small(groups_),
              .counted = gpu::Divisor(small(counted)),
              .token_blocks = gpu::Divisor(small(token_blocks_)),
              .block_tokens = block_tokens_,
              .tiles = small(tiles),
              .whole_rounds = small(whole_rounds),
              .run = gpu::Divisor(small(run)),
              .pairs = pairs},
             blocks,
             bytes,
             clocks,
             shares > of_pair ? divided * (rows / kBlockRows) * of_pair : 0};
  }
};

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
