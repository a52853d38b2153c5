// How a pipeline's blocks divide a product (pipeline_gpu.h), and the lane groups that copy fields and tokens.
#pragma once

#include "backends/gpu/cluster.h"
#include "backends/gpu/divisor.h"
#include "backends/gpu/gate.h"
#include "backends/gpu/products/warpgroup_units.h"
#include "backends/gpu/tensor_copy.h"
#include "codecs/packed_exponents/tokens_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

using LaneGroup = gpu::Lanes<gpu::kTokenLanes>;

inline constexpr int kBlockFieldBytes = static_cast<int>(kRowsPerBlock * kGroupBytes),
                     kBoxRows = kBlockFieldBytes / gpu::kBlockTokenBytes, kWarpgroupRows = gpu::kWarpgroup * kBlockRows;

// The most warpgroups that multiply. Beside them is one that has two lanes which copy.
inline constexpr int kMostWarpgroups = 2;
ECMV_GPU_BOTH constexpr int pipeline_threads(int warpgroups) {
  return (warpgroups + 1) * gpu::kWarpgroup * gpu::kTokenLanes;
}
// A lane's registers with 128 and 256 tokens: a launch gives 168 to all, those that copy keep 40, and those that
// multiply get what is left. A block has no more than it began with, and waits for ever if it asks for more.
inline constexpr int kCopierRegisters = 40, kMultiplierRegisters = 232;

// Halves of a step, 64 columns, that are copied and multiplied at once. With 256 tokens there are registers for one.
// (16384 x 16384, 128 tokens, H200: 135 us with two; with one 150 on another device.)
ECMV_GPU_BOTH constexpr int halves_at_once(int token_tiles) { return token_tiles < 32 ? 2 : 1; }

struct PipelinePlan {
  int warpgroups;             // that multiply
  int groups;                 // of 128 columns: the steps of a tile
  gpu::Divisor counted;       // as many, or, where a tile's parts are one run each, those of whole runs
  gpu::Divisor token_blocks;  // equal blocks of tokens
  int block_tokens;           // tokens of one, a multiple of eight
  int tiles, whole_rounds;    // rounds in which each thread block has a whole tile
  gpu::Divisor run;           // steps that a thread block has of the other tiles, one after the other
  int cluster;                // thread blocks of one, which share a tile (ClusterShares); 1: there are none
};
// The tokens of each of so many equal blocks.
inline int equal_blocks(int tokens, int blocks) { return ((tokens + blocks - 1) / blocks + 7) / 8 * 8; }

// The most thread blocks that have a part of one tile, where runs divide tiles of `counted` steps.
ECMV_GPU_BOTH constexpr int most_shares(int counted, int run) {
  if (run % counted == 0) return 1;
  return counted % run == 0 ? counted / run : (counted + run - 2) / run + 1;
}

// Clusters of which each block has a part of one tile (ClusterShares), for so many tiles of eight tokens.
ECMV_GPU_BOTH constexpr bool cluster_takes(int token_tiles, int blocks) {
  return blocks == 2 || (token_tiles < 32 && blocks <= token_tiles);
}
// Tiles of sums that a lane group gets from the blocks of its cluster, in larger clusters from its own one, too.
ECMV_GPU_BOTH constexpr int given_sums(int token_tiles, int blocks) {
  return blocks == 2 ? token_tiles / 2 : token_tiles;
}
inline constexpr int kSumBytes = gpu::kTokenLanes * int{sizeof(gpu::uint4)};  // of a tile of sums
ECMV_GPU_BOTH constexpr int given_bytes(int token_tiles, int blocks) {
  return given_sums(token_tiles, blocks) * kSumBytes;
}

// A tile is a block's rows, a block of tokens and all columns. Thread blocks take whole tiles in turn, and then equal
// runs of the steps of those that are left, which may begin and end within a tile (two-tile stream-K of Osama, Merrill,
// Cecka, Garland and Owens, Stream-K, 2023). Or a tile's parts are one run each, and the last may have fewer steps. The
// blocks of tokens follow each other, so that fields that one copies from memory lie in the cache for the next.
struct PipelineTile {
  int part = 0;             // what number it has among those of this thread block
  int64_t first_block = 0;  // of 16 rows
  int token_block = 0;
  int first_group = 0, groups = 0;  // this thread block's steps of it; none after the last part
  int share = 0, shares = 1;        // which of as many thread blocks that have a part of it
  int divided = 0;                  // its number among the tiles that runs may divide

  ECMV_GPU_DEVICE bool there() const { return groups > 0; }
  ECMV_GPU_DEVICE void next(const PipelinePlan& plan) {
    ++part;
    find(plan);
  }
  ECMV_GPU_DEVICE void find(const PipelinePlan& plan) {
    const int block = static_cast<int>(gpu::block_index()), blocks = static_cast<int>(gpu::grid_size());
    int tile = 0;
    if (part < plan.whole_rounds) {
      tile = part * blocks + block;
      groups = plan.groups;
    } else {
      const int whole = plan.whole_rounds * blocks, begin = block * plan.run.number();
      divided = plan.counted.quotient(begin) + (part - plan.whole_rounds);
      tile = whole + divided;
      groups = 0;
      if (tile >= plan.tiles) return;
      const int tile_begin = divided * plan.counted.number(), tile_end = tile_begin + plan.groups,
                first = begin > tile_begin ? begin : tile_begin,
                end = begin + plan.run.number() < tile_end ? begin + plan.run.number() : tile_end;
      if (first >= end) return;
      const int first_share = plan.run.quotient(tile_begin);
      share = block - first_share;
      shares = plan.run.quotient(tile_end - 1) - first_share + 1;
      first_group = first - tile_begin;
      groups = end - first;
    }
    const int row_tile = plan.token_blocks.quotient(tile);
    token_block = tile - row_tile * plan.token_blocks.number();
    first_block = int64_t{row_tile} * (plan.warpgroups * gpu::kWarpgroup);
  }
};

// Four places for what a producer copies, used in turn, with gates for places that are full and for those that are
// free. (Six of fields and fewer of tokens, or the reverse, were as fast, three of tokens slower.)
struct Stages {
  int bytes;  // of a place
  gpu::Pointer<std::byte> places, gates;

  static constexpr int kCount = 4, kGateBytes = gpu::Arrival::kBytes + gpu::kGateBytes;
  // Bytes of places and of their gates.
  static ECMV_GPU_BOTH constexpr int all_bytes(int bytes) { return kCount * bytes; }
  static constexpr int kAllGateBytes = kCount * kGateBytes;
  // Walks the places in turn.
  struct Turn {
    unsigned use = 0;
    ECMV_GPU_DEVICE int stage() const { return static_cast<int>(use % kCount); }
    ECMV_GPU_DEVICE int phase() const { return static_cast<int>(use / kCount % 2); }
    ECMV_GPU_DEVICE Turn next() const { return {use + 1}; }
  };
  ECMV_GPU_DEVICE gpu::Arrival full(const Turn& turn) const { return gpu::Arrival(gates + turn.stage() * kGateBytes); }
  ECMV_GPU_DEVICE gpu::Gate free(const Turn& turn) const {
    return gpu::Gate(gates + (turn.stage() * kGateBytes + gpu::Arrival::kBytes));
  }
  ECMV_GPU_DEVICE void init(uint32_t readers) const {
    for (Turn turn; turn.use < kCount; turn = turn.next()) {
      full(turn).init();
      free(turn).init(readers);
    }
  }
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> place(const Turn& turn) const { return places + turn.stage() * bytes; }
  ECMV_GPU_DEVICE bool is_full(const Turn& turn) const { return full(turn).ended(turn.phase()); }
  // `there`: it is full.
  ECMV_GPU_DEVICE void wait_full(const Turn& turn, bool there) const {
    if (!there) full(turn).wait(turn.phase());
  }
  // All places are free at first.
  ECMV_GPU_DEVICE void wait_free(const Turn& turn) const { free(turn).wait(turn.phase() ^ 1); }
  // All lanes of a lane group have read. They go on to the next place.
  ECMV_GPU_DEVICE void leave(Turn& turn) const {
    LaneGroup::sync();
    if (LaneGroup::lane() == 0) free(turn).arrive();
    turn = turn.next();
  }
};

// Bytes of the places for what is copied at once of eight times so many tokens.
ECMV_GPU_BOTH constexpr int token_place_bytes(int token_tiles) {
  return halves_at_once(token_tiles) * 8 * token_tiles * gpu::kBlockTokenBytes;
}
// Shared memory: to the first multiple of kBlockAlignment, gates, tokens, fields.
ECMV_GPU_BOTH constexpr int pipeline_bytes(int token_tiles, int field_bytes) {
  return 2 * gpu::kBlockAlignment + Stages::all_bytes(token_place_bytes(token_tiles) + field_bytes);
}
// Gates and Arrivals, and a Delivery for each lane group that multiplies.
inline constexpr int kDeliveries = 2 * Stages::kAllGateBytes;
static_assert(kDeliveries + kMostWarpgroups * gpu::kWarpgroup * gpu::Delivery::kBytes <= gpu::kBlockAlignment);

// The fields as boxes of a step: of all rows of a tile, and of one block of 16 rows. Blocks lie equally far from each
// other, all but the last one if it has fewer rows, which is copied alone.
struct FieldMaps {
  gpu::TensorMap of_tile, of_block;
};

// The lane that copies fields, a step of all rows of a tile at a time.
ECMV_GPU_DEVICE void produce_fields(const FieldsOnGpu& matrix, const FieldMaps& maps, const PipelinePlan& plan,
                                    const Stages& fields) {
  const int blocks = plan.warpgroups * gpu::kWarpgroup, last_rows = static_cast<int>(matrix.rows % kBlockRows);
  const int64_t last_block = (matrix.rows - 1) / kBlockRows;
  Stages::Turn turn;
  PipelineTile tile;
  for (tile.find(plan); tile.there(); tile.next(plan)) {
    const bool regular = last_rows == 0 || tile.first_block + blocks <= last_block;
    ECMV_GPU_NO_UNROLL
    for (int i = 0; i < tile.groups; ++i) {
      const gpu::Arrival full = fields.full(turn);
      const gpu::Pointer<std::byte> place = fields.place(turn);
      const int group = tile.first_group + i;
      fields.wait_free(turn);
      full.expect(fields.bytes);
      if (regular) {
        gpu::copy_box(full, place, maps.of_tile, group * kBoxRows, 0, tile.first_block);
      } else {
        // Blocks that do not exist repeat the last one, and nobody stores their results.
        ECMV_GPU_NO_UNROLL
        for (int k = 0; k < blocks; ++k) {
          const int64_t wanted = tile.first_block + k, block = wanted < last_block ? wanted : last_block,
                        first = block * kBlockRows * matrix.row_bytes;
          const int rows = block < last_block ? kBlockRows : last_rows;
          gpu::copy_box(full, place + k * kBlockFieldBytes, maps.of_block,
                        (first + int64_t{group} * (192 * rows)) / gpu::kBlockTokenBytes, 0);
        }
      }
      turn = turn.next();
    }
  }
}

// The lane that copies tokens, those of a block, boxes of 64 columns. Boxes have no row without a token, but for the
// last few: rows outside the matrix take longer than others.
template <int kTokenTiles>
ECMV_GPU_DEVICE void produce_tokens(const gpu::TensorMap& x, const PipelinePlan& plan, const Stages& tokens) {
  constexpr int kBoxes = halves_at_once(kTokenTiles), kBoxBytes = 8 * kTokenTiles * gpu::kBlockTokenBytes;
  Stages::Turn turn;
  PipelineTile tile;
  tile.find(plan);
  gpu::wait_for_previous();
  for (; tile.there(); tile.next(plan)) {
    int col = tile.first_group * kGroupColumns;
    const int end = col + tile.groups * kGroupColumns;
    ECMV_GPU_NO_UNROLL
    while (col < end) {
      const gpu::Arrival full = tokens.full(turn);
      tokens.wait_free(turn);
      full.expect(kBoxes * plan.block_tokens * gpu::kBlockTokenBytes);
      ECMV_GPU_UNROLL
      for (int i = 0; i < kBoxes; ++i, col += gpu::kBlockCols)
        gpu::copy_box(full, tokens.place(turn) + i * kBoxBytes, x, tile.token_block * plan.block_tokens, col);
      turn = turn.next();
    }
  }
}

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
