// Host side of products whose blocks, the shares, have some of the columns each: which plan ends first, batches in
// parts, and the facts for the backend.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "backends/gpu/products/token_parts.h"
#include "backends/gpu/products/token_shares.h"
#include "codecs/quad_huffman/gpu/tokens/rounding.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// The most lane groups that share a row.
inline constexpr int kMostTokenGroups = 16;

// Products whose columns several blocks, the shares, divide; blocks take row groups in turn.
struct SharesPlan {
  BlockPlan plan;  // `inputs` follow the rings
  int shares, share_tiles;
  int64_t blocks;
};
// Chooses how many lane groups a block has, up to the policy's, and how many column tiles: among all ways that fit the
// shared memory, the one whose blocks are done first. `matrix` is the stored one; input_bytes(column tiles) is the
// memory of a block besides table and rings. Where `even`, blocks have the same number of row groups, otherwise as many
// rounds of all their lane groups. Fewer lane groups than three quarters of the policy's (seven eighths where `even`)
// take as long as that many. No blocks where nothing fits.
template <typename InputBytes>
SharesPlan plan_shares(const RingPolicy& policy, const Code& code, datasets::Shape matrix, int64_t ring_bytes,
                       const backends::DeviceInfo& device, InputBytes input_bytes, int multiple = 1,
                       bool even = false) {
  const int64_t groups = row_groups(matrix.rows), columns = column_tiles(matrix.cols, code.tile_cols);
  SharesPlan best{};
  double least = 0;
  for (int64_t share_tiles = columns; share_tiles >= 1; --share_tiles) {
    const int64_t shares = (columns + share_tiles - 1) / share_tiles, inputs = input_bytes(share_tiles);
    if (share_tiles != (columns + shares - 1) / shares) continue;
    const int64_t most = std::min<int64_t>(policy.lane_groups, (groups + multiple - 1) / multiple * multiple);
    for (int lane_groups = static_cast<int>(most); lane_groups >= multiple; lane_groups -= multiple) {
      const int64_t rings = lane_groups * ring_bytes;
      SharesPlan planned{};
      BlockPlan& plan = planned.plan;
      if (!place_table(plan, code, policy.copies, device.shared_bytes - rings - inputs)) continue;
      const int64_t row_blocks = (groups + lane_groups - 1) / lane_groups,
                    at_once = std::clamp<int64_t>(device.compute_units / shares, 1, row_blocks),
                    rounds = (row_blocks + at_once - 1) / at_once,
                    launches = (shares + device.compute_units - 1) / device.compute_units,
                    last = even ? (groups + at_once - 1) / at_once - (rounds - 1) * lane_groups : lane_groups;
      const auto time_of = [&](int64_t at_work) {
        return std::max<int64_t>(at_work, policy.lane_groups * (even ? 7 : 6) / 8);
      };
      // Lanes that share a copy of the table wait for each other.
      const double waits = plan.copies >= 8   ? 1
                           : plan.copies >= 2 ? 1.1
                                              : 1.2,
                   time = static_cast<double>(launches * share_tiles *
                                              ((rounds - 1) * time_of(lane_groups) + time_of(last))) *
                          waits * (1 + 0.005 * static_cast<double>(shares));
      if (best.blocks > 0 && time >= least) continue;
      least = time;
      plan.lane_groups = lane_groups;
      plan.lane_groups_of_rows = 1;
      plan.inputs = plan.rings + static_cast<int>(rings);
      plan.bytes = plan.inputs + static_cast<int>(inputs);
      planned.shares = static_cast<int>(shares);
      planned.share_tiles = static_cast<int>(share_tiles);
      planned.blocks = at_once * shares;
      best = planned;
    }
  }
  return best;
}

// The number of blocks whose sums a launch after the product adds up.
template <typename Plan>
int added_shares(const Plan& plan) {
  if constexpr (requires { plan.layout.pairs; })
    return plan.layout.shares / (plan.layout.pairs ? 2 : 1);  // by clusters
  return plan.layout.shares;
}

// launch(plan, tokens) starts the product of each part. Sums of several shares go to the scratch.
template <typename Plan, typename Launch>
void multiply_parts(void* stream, const backends::MatmulArgs& args, const gpu::TokenParts<Plan>& parts,
                    int compute_units, bool early, Launch launch) {
  parts.each([&](int first, int batch, const Plan& plan) {
    gpu::Bf16Tokens tokens = gpu::bf16_tokens_of(args, batch, first);
    float* const y = args.y + first * args.y_stride;
    const int shares = added_shares(plan);
    if (shares > 1) tokens.y = reinterpret_cast<float*>(args.scratch);
    launch(plan, tokens);
    gpu::enqueue_add_shares(stream, args.scratch, shares, tokens.batch * tokens.rows, y, compute_units, early);
  });
}

// The rounding of sums over so many columns. Substitutes are multiplied too, and subtracted again. With int8 elements
// the sum of the tokens' numbers is subtracted as well, times the offset of the codes.
inline backends::ProductRounding rounding_of_shares(const backends::CompressedView& view, const Code& code, int cols,
                                                    int shares) {
  backends::ProductRounding rounding = gpu::token_rounding(cols, shares + kMostTokenGroups);
  if (has_floats(view)) return rounding_of_floats(view, rounding, cols);
  rounding.more_roundings += 4 * cols;
  // A patched element is coded as another one of as many bits.
  const int most = (most_high(code.symbol_cols, code.form) + 1) << cell_bits(code.form);
  rounding.offset = 2.0 * (std::abs(code.lowest) + most);
  return rounding;
}

// The facts of a product in parts; a tile has tile_cols columns of the matrix.
template <typename Plan>
backends::KernelFacts facts_of_shares(const backends::CompressedView& view, const Code& code,
                                      const gpu::TokenParts<Plan>& parts, int tile_cols) {
  const int shares = std::max(parts.whole.layout.shares, parts.rest.layout.shares),
            share_tiles = std::max(parts.whole.layout.share_tiles, parts.rest.layout.share_tiles);
  return {.scratch_bytes = gpu::share_scratch_bytes(shares, view.shape.rows),
          .rounding = rounding_of_shares(view, code, share_tiles * tile_cols, shares)};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
