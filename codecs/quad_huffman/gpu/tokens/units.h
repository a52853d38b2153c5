// A product as units of work, each a tile. Units are numbered row group by row group. A block has a run of them and
// each of its lane groups a part of that run; runs differ by one unit at most. So all multiprocessors are busy to the
// end, whatever the matrix's shape is. Where the columns are divided into shares, a block has units of one share and
// needs only that share of x in its shared memory.
//
// Tiles of a row group may therefore be in several blocks. The last of these adds up; the others hand it their sums in
// words of memory that carry the launch's number (backends/gpu/exchange.h). A block waits only for blocks of lower
// numbers, which begin no later than it, so blocks need not all run together.
#pragma once

#include "backends/gpu/exchange.h"
#include "backends/gpu/products/dense_matmul.h"
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

// All shares are equally wide, in column tiles, and divide the tiles of their row groups alike.
struct Division {
  int shares = 1, share_tiles = 0;
  int blocks = 0;  // a share's
  int step = 1;    // units that stay together: 1, or share_tiles where no row group is in several blocks
  Runs runs;       // a block's steps

  ECMV_GPU_BOTH int begin(int block) const { return runs.begin(block) * step; }
  ECMV_GPU_BOTH int block_of(int unit) const { return runs.run_of(unit / step); }

  // Words of the exchange: for each block the sums that it hands out of the row group that goes on in the next block,
  // and for every share but the last the sums of every row group.
  int64_t words(int64_t groups, int group_words) const {
    return (int64_t{shares} * blocks + (shares - 1) * groups) * group_words;
  }
  // The most row groups that a block has units of.
  int most_groups() const {
    const int units = (runs.whole + (runs.longer > 0 ? 1 : 0)) * step;
    return units == 0 ? 0 : (units + share_tiles - 2) / share_tiles + 1;
  }
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
    const int block = static_cast<int>(gpu::block_index());
    share_ = LaneGroup::uniform(block / division.blocks);
    block_ = block - share_ * division.blocks;
    begin_ = division.begin(block_);
    const int count = division.begin(block_ + 1) - begin_;
    first_group_ = LaneGroup::uniform(begin_ / division.share_tiles);
    groups_ = LaneGroup::uniform((begin_ + count - 1) / division.share_tiles + 1 - first_group_);
    lane_groups_.whole = LaneGroup::uniform(count / lane_groups);
    lane_groups_.longer = count - lane_groups_.whole * lane_groups;
  }
  ECMV_GPU_DEVICE int first_tile() const { return share_ * division_.share_tiles; }
  ECMV_GPU_DEVICE int tiles() const { return division_.share_tiles; }
  ECMV_GPU_DEVICE int first_group() const { return first_group_; }
  ECMV_GPU_DEVICE bool has_first_of(int group) const { return group * division_.share_tiles >= begin_; }
  // Row groups that the block has units of.
  ECMV_GPU_DEVICE int groups() const { return groups_; }

  // Walks a lane group's units, one after the other.
  struct Walk {
    int group, column, left;  // column tile of the matrix; units, this one included

    ECMV_GPU_DEVICE bool ends_row_group(const BlockUnits& of) const {
      return left == 1 || column + 1 == of.first_tile() + of.tiles();
    }
    ECMV_GPU_DEVICE void next(const BlockUnits& of) {
      --left;
      if (++column == of.first_tile() + of.tiles()) column = of.first_tile(), ++group;
    }
  };
  ECMV_GPU_DEVICE Walk walk(int lane_group) const {
    const int first = lane_groups_.begin(lane_group), unit = begin_ + first,
              group = LaneGroup::uniform(unit / division_.share_tiles);
    return {group, first_tile() + unit - group * division_.share_tiles, lane_groups_.begin(lane_group + 1) - first};
  }

  // A lane group's slot for the sums of a row group's units. Slots count from 0, a row group's follow each other, and
  // there is one less than lane groups and row groups together.
  ECMV_GPU_DEVICE int slot(int lane_group, int group) const { return lane_group + group - first_group_; }
  ECMV_GPU_DEVICE int first_slot(int group) const {
    const int first = group * division_.share_tiles - begin_;
    return slot(lane_groups_.run_of(first > 0 ? first : 0), group);
  }
  ECMV_GPU_DEVICE int last_slot(int group) const {
    const int last = (group + 1) * division_.share_tiles - 1 - begin_, count = division_.begin(block_ + 1) - begin_;
    return slot(lane_groups_.run_of(last < count ? last : count - 1), group);
  }

  // Completes a row group's sum, number `number` of its kNumbers. The last block gets the whole sum and true; any other
  // hands its part on and gets false.
  template <int kNumbers, typename Sum>
  ECMV_GPU_DEVICE bool complete(const gpu::Exchange& exchange, int64_t row_groups, int group, int number,
                                Sum& sum) const {
    constexpr int kWords = sizeof(Sum) / 4, kGroupWords = kNumbers * kWords;
    const auto of_block = [&](int share, int block) {
      return (int64_t{share} * division_.blocks + block) * kGroupWords + number * kWords;
    };
    const auto of_share = [&](int share) {
      return (int64_t{division_.shares} * division_.blocks + share * row_groups + group) * kGroupWords +
             number * kWords;
    };
    if (division_.step > 1 && division_.shares == 1) return true;
    const int last = division_.block_of((group + 1) * division_.share_tiles - 1);
    if (block_ < last) {
      put(exchange, of_block(share_, block_), sum);
      return false;
    }
    if (share_ < division_.shares - 1) {
      put(exchange, of_share(share_), sum);
      return false;
    }
    const int first = division_.block_of(group * division_.share_tiles);
    Sum all{};
    for (int share = 0; share < division_.shares; ++share) {
      for (int block = first; block < last; ++block) all += get<Sum>(exchange, of_block(share, block));
      all += share < share_ ? get<Sum>(exchange, of_share(share)) : sum;
    }
    sum = all;
    return true;
  }

 private:
  static ECMV_GPU_DEVICE void put(const gpu::Exchange& exchange, int64_t place, float sum) {
    exchange.put(0, place, gpu::bits_of(sum));
  }
  static ECMV_GPU_DEVICE void put(const gpu::Exchange& exchange, int64_t place, int64_t sum) {
    exchange.put(0, place, static_cast<uint32_t>(sum));
    exchange.put(0, place + 1, static_cast<uint32_t>(sum >> 32));
  }
  template <typename Sum>
  static ECMV_GPU_DEVICE Sum get(const gpu::Exchange& exchange, int64_t place) {
    if constexpr (sizeof(Sum) == 4)
      return gpu::float_of(exchange.get(0, place));
    else
      return static_cast<int64_t>(uint64_t{exchange.get(0, place + 1)} << 32 | exchange.get(0, place));
  }

  const Division& division_;
  Runs lane_groups_;
  int share_, block_, begin_, first_group_, groups_;
};

// --- host -----------------------------------------------------------------------------------------------------------

struct UnitsPolicy : RingPolicy {
  int shares;   // at most
  bool splits;  // row groups are divided among blocks, too
};
struct UnitsPlan {
  BlockPlan plan;
  Division division;
  gpu::LaunchShape launch_shape;
};

// All multiprocessors have blocks in one round, unless the sums of so many row groups do not fit: sums_bytes(lane
// groups, row groups of a block). All lane groups have room for a lean one's schedule, 1 KiB a block at most. No lane
// groups where nothing fits.
template <typename SumsBytes>
UnitsPlan plan_units(const UnitsPolicy& policy, const Code& code, datasets::Shape matrix,
                     const backends::DeviceInfo& device, SumsBytes sums_bytes) {
  constexpr int kInputBytes = 4;  // a column
  const int64_t groups = row_groups(matrix.rows), tiles = column_tiles(matrix.cols, code.tile_cols);
  int shares = std::min(policy.shares, device.compute_units);
  while (tiles % shares != 0) --shares;
  UnitsPlan planned{};
  Division& division = planned.division;
  division.shares = shares;
  division.share_tiles = static_cast<int>(tiles / shares);
  const int64_t units = groups * division.share_tiles,
                inputs = int64_t{division.share_tiles} * code.tile_cols * kInputBytes,
                shared_bytes = bytes_of_block(device.shared_bytes, policy);
  for (int lane_groups = policy.lane_groups; lane_groups >= 2; lane_groups /= 2) {
    for (int rounds = 1; rounds <= 64; rounds *= 2) {
      const int64_t at_once = int64_t{device.compute_units} * policy.blocks * rounds / shares;
      division.step = policy.splits ? 1 : division.share_tiles;
      const int steps = static_cast<int>(units / division.step);
      division.blocks = static_cast<int>(std::min<int64_t>(at_once, steps));
      division.runs = runs_of(steps, division.blocks);
      const int64_t rings = int64_t{lane_groups} * kLeanRingBytes,
                    sums = (kEpochBytes + sums_bytes(lane_groups, division.most_groups()) + 15) / 16 * 16;
      BlockPlan& plan = planned.plan;
      if (!place_table(plan, code, policy.copies, shared_bytes - rings - sums - inputs)) continue;
      plan.lane_groups = lane_groups;
      plan.sums = plan.rings + static_cast<int>(rings);
      plan.inputs = plan.sums + static_cast<int>(sums);
      plan.bytes = plan.inputs + static_cast<int>(inputs);
      planned.launch_shape = {int64_t{shares} * division.blocks, lane_groups * kLanes, plan.bytes,
                              gpu::have_early_launches(device)};
      return planned;
    }
  }
  return {};
}
inline gpu::Exchange exchange_of(const UnitsPlan& planned, datasets::Shape matrix, int group_words,
                                 backends::Place& place) {
  const int64_t words = planned.division.words(row_groups(matrix.rows), group_words);
  return {place.zeroed(gpu::Exchange::bytes(words)), words};
}
inline constexpr const char* kRefusesUnits =
    "The table, the rings of two lane groups, sums and a token do not fit the shared memory of a thread block.";

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
