// How a product with tokens (token_matmul.h) is divided among blocks, lane groups and slices of columns. Host code
// plans when a kernel is bound; the kernel reads the plan.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/gpu/cluster.h"
#include "backends/gpu/divisor.h"
#include "backends/gpu/products/token_form.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Numbers between one token's sums and the next token's, so that lanes write different banks at once.
inline constexpr int kSumsPadding = 4;

// How a product is divided among blocks and lane groups.
struct TokenPlan {
  Divisor tiles;    // row tiles in a block
  int parts;        // lane groups that share one
  Divisor shares;   // blocks that share rows (token_shares.h)
  int share_cols;   // a share's columns
  bool in_cluster;  // the shares are a cluster, whose blocks read each other's sums
  int slice_steps;  // steps of a part in a slice
  Divisor runs;     // runs of columns in a slice (token_copies.h)
  Divisor fours;    // four rows of a block (token_sums.h)
  // In shared memory: from one token of a slice to the next, from one slice to the other, and where the rings begin.
  int token_bytes, slice_bytes, rings;
};

// A kernel's form: the lane groups of a block, each one's tiles of 16 rows, the steps under way, the blocks that fit on
// a multiprocessor, the most blocks that share rows, and whether four lane groups multiply as a warpgroup.
struct TokenPolicy : Policy {
  int groups, row_tiles, ahead, resident, shares;
  bool warpgroup;
  int rows() const { return kTileRows * row_tiles; }
};

// Tiles of eight tokens in a kernel for this batch. `fours`: whether there are kernels for four. (H200,
// packed_exponents, 4096 x 4096: 12.2 us for 32 tokens in four tiles, 15.6 for 64 in eight. For all bits and scales of
// packed_outliers they would be 90 functions more.)
inline int token_tiles(int batch, bool warpgroup, bool fours = false) {
  return batch <= 8 && !warpgroup ? 1 : batch <= 16 ? 2 : batch <= 32 && fours ? 4 : 8;
}

struct SizedPlan {
  TokenPlan plan;
  int64_t bytes;  // of shared memory; 0 where the batch does not fit
};

// A slice is a multiple of this many steps of a part: for warpgroups, whole blocks of 64 columns.
template <typename Elements>
int least_steps(const TokenPolicy& policy, int parts) {
  return policy.warpgroup && parts * kStepCols<Elements> % kBlockCols != 0 ? kBlockCols / kStepCols<Elements> : 1;
}

// The parts of a plan that do not depend on the batch: tiles, parts, shares and their columns. Two shares are a
// cluster. (H200, packed_exponents, warpgroups of 64 tokens: two 1 to 6 % faster than with a launch that adds, in two
// calls. Clusters of four do not all fit at once, and took 1.6 times as long as two at 8192 x 8192.)
template <typename Elements>
TokenPlan divide_tokens(const TokenPolicy& policy, datasets::Shape shape, const DeviceInfo& device) {
  const int64_t row_tiles = (shape.rows + policy.rows() - 1) / policy.rows(),
                blocks = std::max<int64_t>(1, int64_t{device.compute_units} * policy.resident),
                steps = (shape.cols + kStepCols<Elements> - 1) / kStepCols<Elements>;
  int tiles =
      static_cast<int>(std::clamp<int64_t>((row_tiles * policy.shares + blocks - 1) / blocks, 1, policy.groups));
  if (policy.warpgroup) tiles = (tiles + kWarpgroup - 1) / kWarpgroup * kWarpgroup;
  TokenPlan plan{};
  plan.tiles = Divisor(tiles);
  plan.fours = Divisor(tiles * policy.rows() / 4);
  plan.parts = policy.groups / tiles;
  const int64_t row_blocks = (row_tiles + tiles - 1) / tiles,
                most = std::clamp<int64_t>(blocks / row_blocks, 1, policy.shares),
                unit = int64_t{plan.parts} * least_steps<Elements>(policy, plan.parts),
                share_steps = (steps + unit * most - 1) / (unit * most) * unit;
  plan.shares = Divisor(static_cast<int>((steps + share_steps - 1) / share_steps));
  plan.share_cols = static_cast<int>(share_steps * kStepCols<Elements>);
  plan.in_cluster = plan.shares.number() == 2 && have_clusters(device);
  return plan;
}

// Slices are as long as fit, since all lane groups wait for each other where one ends, but at most a quarter of the
// columns, since nothing is multiplied before the first one is there. (H200, 16384 columns: 88 us a layer for one token
// in one slice, 73 for four tokens in two.) Where a quarter is less than kLeastSlice bytes of a block's rows there are
// fewer slices. (H200, us with four slices and with as many as that: raw_bf16, 4096 x 1024, 1 and 64 tokens 4.5 and
// 3.7, 7.7 and 6.4; packed_exponents, 4096 x 4096, 1 token 9.9 with half of kLeastSlice, 8.9 with it.)
//
// A block of a policy for one block a multiprocessor takes more than half of the shared memory, even if it needs less.
// Otherwise blocks of the next launch, which begins early, would move in beside the present one's, two on some
// multiprocessors and none on others. (raw_bf16 `groups16_ahead4`, one token, 6144 x 4096: 17.6 us instead of 15.1.)
template <typename Elements>
SizedPlan token_plan(const TokenPolicy& policy, datasets::Shape shape, int batch, const DeviceInfo& device) {
  constexpr int64_t kSystemBytes = 1024;  // that every block needs besides its own
  constexpr int64_t kLeastSlice = 128 << 10;
  const int64_t most = (device.shared_bytes + kSystemBytes) / policy.resident - kSystemBytes,
                stages = int64_t{policy.groups} * 2 * policy.row_tiles * Elements::kLoads * kTokenLanes * kLaneBytes;
  TokenPlan plan = divide_tokens<Elements>(policy, shape, device);
  const int64_t sums = int64_t{plan.parts} * batch * (plan.tiles.number() * policy.rows() + kSumsPadding) * 4,
                steps = (plan.share_cols / kStepCols<Elements> + plan.parts - 1) / plan.parts,  // of a part
      most_slices = steps * stages / kLeastSlice;
  const int step_cols = plan.parts * kStepCols<Elements>, least = least_steps<Elements>(policy, plan.parts);
  for (int64_t slices = std::clamp<int64_t>(most_slices, 1, 4);; ++slices) {
    plan.slice_steps = static_cast<int>((steps + slices - 1) / slices);
    plan.slice_steps = (plan.slice_steps + least - 1) / least * least;
    const int slice_cols = plan.slice_steps * step_cols;
    plan.runs = Divisor(slice_cols / Elements::kTokenRun);
    plan.token_bytes = slice_cols * 2 + kTokenPadding<Elements>;
    plan.slice_bytes = policy.warpgroup
                           ? slice_cols / kBlockCols * 8 * token_tiles(batch, true, Elements::kFours) * kBlockTokenBytes
                           : batch * plan.token_bytes;
    plan.rings = (plan.slice_steps < steps ? 2 : 1) * plan.slice_bytes;
    const int64_t bytes = std::max(plan.rings + policy.ahead * stages, sums) + (policy.warpgroup ? kBlockAlignment : 0);
    if (bytes <= most) return {plan, policy.resident == 1 ? std::max(bytes, most / 2 + 1) : bytes};
    if (plan.slice_steps <= least) return {};
  }
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
