// A product as units of work, each a tile, so that all multiprocessors are busy to the end. A block has a run of row
// groups, and each of its lane groups a part of the run's units; parts differ by one unit at most. Where the columns
// are divided into shares, a block has units of one share and needs only that share of x in its shared memory.
//
// The last share of a row group adds up; blocks of the others hand it their sums in words of memory that carry the
// launch's number (backends/gpu/exchange.h). A block waits only for blocks of lower numbers, which begin no later than
// it, so blocks need not all run together.
#pragma once

#include "backends/gpu/exchange.h"
#include "codecs/quad_huffman/gpu/plan.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Numbers from 0 on in runs of `whole`; the first `longer` runs have one more.
struct Runs {
  int whole = 0, longer = 0;

  ECMV_GPU_BOTH int begin(int run) const { return run * whole + (run < longer ? run : longer); }
  ECMV_GPU_BOTH int run_of(int number) const {
    const int in_longer = longer * (whole + 1);
    return number < in_longer ? number / (whole + 1) : longer + (number - in_longer) / whole;
  }
};
ECMV_GPU_BOTH Runs runs_of(int count, int runs) { return {count / runs, count % runs}; }

// All shares are equally wide, in column tiles, and divide the row groups among their blocks alike.
struct Division {
  int shares = 1, share_tiles = 0;
  int blocks = 0;  // a share's
  Runs groups;     // a block's row groups
};

// A launch's number in its exchange: one thread notes it in shared memory, because it would take a register until the
// sums are there. Words carry it, so it may become the next launch's number as soon as all blocks have noted it.
inline constexpr int kEpochBytes = 16;
ECMV_GPU_DEVICE void note_epoch(const gpu::Exchange& exchange, gpu::Pointer<uint32_t> epoch) {
  if (gpu::thread_index() == 0) *epoch = exchange.epoch();
}
// Call after a barrier. A thread of the last lane group waits here, which has no more units than others.
ECMV_GPU_DEVICE void count_block(gpu::Exchange exchange, gpu::Pointer<const uint32_t> epoch) {
  if (gpu::thread_index() != gpu::block_size() - 1) return;
  exchange.begin(*epoch);
  exchange.end(1);
}

// The units of this block.
class BlockUnits {
 public:
  ECMV_GPU_DEVICE BlockUnits(const Division& division, int lane_groups) : division_(division) {
    const int all = static_cast<int>(gpu::block_index());
    share_ = LaneGroup::uniform(all / division.blocks);
    const int block = all - share_ * division.blocks;
    first_group_ = LaneGroup::uniform(division.groups.begin(block));
    groups_ = LaneGroup::uniform(division.groups.begin(block + 1) - first_group_);
    const int count = groups_ * division.share_tiles;
    lane_groups_.whole = LaneGroup::uniform(count / lane_groups);
    lane_groups_.longer = count - lane_groups_.whole * lane_groups;
  }
  ECMV_GPU_DEVICE int first_tile() const { return share_ * division_.share_tiles; }
  ECMV_GPU_DEVICE int tiles() const { return division_.share_tiles; }
  // The block's row groups.
  ECMV_GPU_DEVICE int first_group() const { return first_group_; }
  ECMV_GPU_DEVICE int groups() const { return groups_; }

  // Walks a lane group's units, one after the other.
  struct Walk {
    int group, column, left;  // column tile of the matrix; units, this one included

    ECMV_GPU_DEVICE void next(const BlockUnits& of) {
      --left;
      if (++column == of.first_tile() + of.tiles()) column = of.first_tile(), ++group;
    }
  };
  ECMV_GPU_DEVICE Walk walk(int lane_group) const {
    const int first = lane_groups_.begin(lane_group), row = LaneGroup::uniform(first / division_.share_tiles);
    return {first_group_ + row, first_tile() + first - row * division_.share_tiles,
            lane_groups_.begin(lane_group + 1) - first};
  }

  // Completes a row group's sum, number `number` of its kNumbers. The last share's block gets the whole sum and true;
  // any other hands its part on and gets false.
  template <int kNumbers>
  ECMV_GPU_DEVICE bool complete(const gpu::Exchange& exchange, int64_t row_groups, int group, int number,
                                int64_t& sum) const {
    const auto of_share = [&](int share) { return ((share * row_groups + group) * kNumbers + number) * 2; };
    if (share_ < division_.shares - 1) {
      exchange.put(0, of_share(share_), static_cast<uint32_t>(sum));
      exchange.put(0, of_share(share_) + 1, static_cast<uint32_t>(sum >> 32));
      return false;
    }
    for (int share = 0; share < share_; ++share)
      sum +=
          static_cast<int64_t>(uint64_t{exchange.get(0, of_share(share) + 1)} << 32 | exchange.get(0, of_share(share)));
    return true;
  }

 private:
  const Division& division_;
  Runs lane_groups_;
  int share_, first_group_, groups_;
};

// --- host -----------------------------------------------------------------------------------------------------------

struct UnitsPolicy : RingPolicy {
  int shares;  // at most
};
struct UnitsPlan {
  BlockPlan plan;
  Division division;
  gpu::LaunchShape launch_shape;
};

// All multiprocessors have blocks in one round, unless the sums of so many row groups do not fit: group_bytes a row
// group and more_bytes besides. No lane groups where nothing fits.
inline UnitsPlan plan_units(const UnitsPolicy& policy, const Header& code, datasets::Shape matrix,
                            const backends::DeviceInfo& device, int group_bytes, int more_bytes) {
  constexpr int kInputBytes = 4;  // a column
  const int64_t groups = row_groups(matrix.rows), tiles = column_tiles(matrix.cols, tile_cols_of(code));
  int shares = std::min(policy.shares, device.compute_units);
  while (tiles % shares != 0) --shares;
  UnitsPlan planned{};
  Division& division = planned.division;
  division.shares = shares;
  division.share_tiles = static_cast<int>(tiles / shares);
  const int64_t inputs = int64_t{division.share_tiles} * tile_cols_of(code) * kInputBytes,
                shared_bytes = bytes_of_block(device.shared_bytes, policy);
  for (int lane_groups = policy.lane_groups; lane_groups >= 2; lane_groups /= 2) {
    for (int rounds = 1; rounds <= 64; rounds *= 2) {
      division.blocks =
          static_cast<int>(std::min<int64_t>(int64_t{device.compute_units} * policy.blocks * rounds / shares, groups));
      division.groups = runs_of(static_cast<int>(groups), division.blocks);
      const int64_t rings = int64_t{lane_groups} * kRingBytes,
                    sums = (kEpochBytes + int64_t{division.groups.begin(1)} * group_bytes + more_bytes + 15) / 16 * 16;
      BlockPlan& plan = planned.plan;
      if (!place_table(plan, code, policy.copies, shared_bytes - rings - sums - inputs)) continue;
      plan.lane_groups = lane_groups;
      plan.sums = plan.rings + static_cast<int>(rings);
      plan.inputs = plan.sums + static_cast<int>(sums);
      plan.bytes = plan.inputs + static_cast<int>(inputs);
      planned.launch_shape = {int64_t{shares} * division.blocks, lane_groups * kLanes, plan.bytes,
                              gpu::have_early_launches(device)};
      planned.launch_shape.in_order = shares > 1;
      return planned;
    }
  }
  return {};
}
// Words for every share but the last: the sums of every row group.
inline gpu::Exchange exchange_of(const UnitsPlan& planned, datasets::Shape matrix, int group_words,
                                 backends::Place& place) {
  const int64_t words = (planned.division.shares - 1) * row_groups(matrix.rows) * group_words;
  return {place.zeroed(gpu::Exchange::bytes(words)), words};
}
inline constexpr const char* kRefusesUnits =
    "The table, the rings of two lane groups, sums and a token do not fit the shared memory of a thread block.";

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
