// How a pipeline's blocks divide a product (pipeline_gpu.h), and the lane groups that copy fields and tokens.
#pragma once

#include "backends/gpu/gate.h"
#include "backends/gpu/products/warpgroup_units.h"
#include "backends/gpu/tensor_copy.h"
#include "codecs/packed_exponents/tokens_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

using LaneGroup = gpu::Lanes<gpu::kTokenLanes>;

inline constexpr int kBlockFieldBytes = static_cast<int>(kRowsPerBlock * kGroupBytes),
                     kBoxRows = kBlockFieldBytes / gpu::kBlockTokenBytes, kWarpgroupRows = gpu::kWarpgroup * kBlockRows;

// The most warpgroups that multiply. Beside them are two lane groups that copy and two that look records up.
inline constexpr int kMostWarpgroups = 2;
ECMV_GPU_BOTH constexpr int pipeline_threads(int warpgroups) {
  return (warpgroups + 1) * gpu::kWarpgroup * gpu::kTokenLanes;
}

struct PipelinePlan {
  int warpgroups;                          // that multiply
  int shares, share_groups;                // of the columns, in groups of 128
  int groups;                              // of all columns
  int token_blocks;                        // of as many tokens as the kernel multiplies at a time
  int field_stages, token_stages;          // steps that are under way
  int token_places, record_places, gates;  // in shared memory, from the first place for a block on
  int tiles;
  bool transposes;  // records find their columns of tokens in a copy (transpose_gpu.h)
};

// A block's tile. The shares of a tile, then the blocks of tokens, follow each other, so that what one copies from
// memory lies in the cache for the next.
struct PipelineTile {
  int64_t first_block;  // of 16 rows
  int token_block, share, first_group, groups;

  ECMV_GPU_DEVICE PipelineTile(const PipelinePlan& plan, int tile) {
    const int part = tile / plan.shares, row_tile = part / plan.token_blocks;
    share = tile - part * plan.shares;
    token_block = part - row_tile * plan.token_blocks;
    first_block = int64_t{row_tile} * (plan.warpgroups * gpu::kWarpgroup);
    first_group = share * plan.share_groups;
    const int left = plan.groups - first_group;
    groups = left < plan.share_groups ? left : plan.share_groups;
  }
};

// A thread block's first tile, and how much further its next one is.
ECMV_GPU_DEVICE int first_tile() { return static_cast<int>(gpu::block_index()); }
ECMV_GPU_DEVICE int next_tile() { return static_cast<int>(gpu::grid_size()); }

// Places for what a producer copies, used in turn, with gates for places that are full and for those that are free.
struct Stages {
  int count, bytes;
  gpu::Pointer<std::byte> places, gates;

  static constexpr int kGateBytes = gpu::Arrival::kBytes + gpu::kGateBytes;
  // Walks the places in turn.
  struct Turn {
    int stage = 0, phase = 0;
    ECMV_GPU_DEVICE void next(int count) {
      if (++stage == count) stage = 0, phase ^= 1;
    }
  };
  ECMV_GPU_DEVICE gpu::Arrival full(const Turn& turn) const { return gpu::Arrival(gates + turn.stage * kGateBytes); }
  ECMV_GPU_DEVICE gpu::Gate free(const Turn& turn) const {
    return gpu::Gate(gates + (turn.stage * kGateBytes + gpu::Arrival::kBytes));
  }
  ECMV_GPU_DEVICE void init(uint32_t readers) const {
    Turn turn;
    for (int i = 0; i < count; ++i) {
      full(turn).init();
      free(turn).init(readers);
      turn.next(count);
    }
  }
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> place(const Turn& turn) const { return places + turn.stage * bytes; }
  ECMV_GPU_DEVICE void wait_full(const Turn& turn) const { full(turn).wait(turn.phase); }
  // All places are free at first.
  ECMV_GPU_DEVICE void wait_free(const Turn& turn) const { free(turn).wait(turn.phase ^ 1); }
  // All lanes of a lane group have read. They go on to the next place.
  ECMV_GPU_DEVICE void leave(Turn& turn) const {
    LaneGroup::sync();
    if (LaneGroup::lane() == 0) free(turn).arrive();
    turn.next(count);
  }
};

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
  for (int number = first_tile(); number < plan.tiles; number += next_tile()) {
    const PipelineTile tile(plan, number);
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
      turn.next(fields.count);
    }
  }
}

// The lane that copies tokens, `block_tokens` of them and 64 columns at a time.
ECMV_GPU_DEVICE void produce_tokens(const gpu::TensorMap& x, int block_tokens, const PipelinePlan& plan,
                                    const Stages& tokens) {
  Stages::Turn turn;
  for (int number = first_tile(); number < plan.tiles; number += next_tile()) {
    const PipelineTile tile(plan, number);
    int col = tile.first_group * kGroupColumns;
    ECMV_GPU_NO_UNROLL
    for (int i = 0; i < 2 * tile.groups; ++i, col += gpu::kBlockCols) {
      const gpu::Arrival full = tokens.full(turn);
      tokens.wait_free(turn);
      full.expect(tokens.bytes);
      gpu::copy_box(full, tokens.place(turn), x, tile.token_block * block_tokens, col);
      turn.next(tokens.count);
    }
  }
}

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
