// Records in products with up to 32 tokens at a time (pipeline_gpu.h): a lane group beside those that copy and multiply
// computes what they add to the sums of a tile's rows. So no lane that multiplies looks for records or waits for one.
#pragma once

#include "backends/gpu/products/token_entries.h"
#include "codecs/packed_exponents/pipeline_stages_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

// Sums in shared memory, [tokens, rows] of a tile, and gates: what they are is there; all lane groups have taken it.
template <int kTokenTiles>
struct RecordCorrections {
  int rows;  // of a tile
  gpu::Pointer<float> sums;
  gpu::Gate there, taken;

  RecordCorrections() = default;
  ECMV_GPU_DEVICE RecordCorrections(int warpgroups, gpu::Pointer<std::byte> place, gpu::Pointer<std::byte> gates)
      : rows(warpgroups * kWarpgroupRows),
        sums(gpu::cast<float>(place)),
        there(gates),
        taken(gates + gpu::kGateBytes) {}
  ECMV_GPU_DEVICE void init() const {
    there.init(1);
    taken.init(static_cast<uint32_t>(rows / kBlockRows));
  }

  // The lane group that computes them. A tile's records are one list, and the thread blocks that share the tile take
  // turns. Three trips to memory: where they are, they, and what is stored of their elements; then x.
  ECMV_GPU_DEVICE void compute(const FieldsOnGpu& matrix, const PipelinePlan& plan, const gpu::Bf16Tokens& all) const {
    const int lane = LaneGroup::lane(), blocks = rows / kBlockRows;
    for (int i = lane; i < 8 * kTokenTiles * rows; i += LaneGroup::size()) sums[i] = 0;
    LaneGroup::sync();
    const int64_t last = (matrix.rows + kBlockRows - 1) / kBlockRows;
    PipelineTile tile;
    for (tile.find(plan); tile.there(); tile.next(plan)) {
      const int64_t wanted = tile.first_block + (lane < blocks ? lane : blocks);
      const int64_t bound = static_cast<int64_t>(matrix.blocks[wanted < last ? wanted : last]);
      const int64_t begin = LaneGroup::shuffle(bound, 0), end = LaneGroup::shuffle(bound, blocks);
      int64_t from = begin + tile.share;
      Own own = find(matrix, tile, bound, blocks, from + int64_t{lane} * tile.shares, end);
      gpu::Bf16Tokens tokens = all;
      const int first_token = tile.token_block * plan.block_tokens, left = all.batch - first_token;
      tokens.x = all.x + first_token * all.x_stride;
      tokens.batch = left < plan.block_tokens ? left : plan.block_tokens;
      if (tile.part == 0)
        gpu::wait_for_previous();
      else
        taken.wait((tile.part - 1) % 2);
      while (from < end) {
        const int64_t here = (end - from + tile.shares - 1) / tile.shares;
        Turns::add_all(own.entry(matrix), 0, here < LaneGroup::size() ? static_cast<int>(here) : LaneGroup::size(),
                       {sums, rows}, tokens);
        from += int64_t{LaneGroup::size()} * tile.shares;
        if (from < end) own = find(matrix, tile, bound, blocks, from + int64_t{lane} * tile.shares, end);
      }
      LaneGroup::sync();
      if (lane == 0) there.arrive();
    }
  }

  // Adds those of a lane group that multiplies, number `own`, to its sums, and leaves zeros.
  ECMV_GPU_DEVICE void add(const PipelineTile& tile, int own, float (&to)[kTokenTiles][4]) const {
    there.wait(tile.part % 2);
    const int row = own * kBlockRows + 2 * (LaneGroup::lane() / 4), token = 2 * (LaneGroup::lane() % 4);
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTokenTiles; ++j) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 2; ++i) {
        const gpu::Pointer<gpu::uint2> two = gpu::cast<gpu::uint2>(sums + ((8 * j + token + i) * rows + row));
        const gpu::uint2 of_rows = *two;
        *two = {0, 0};
        to[j][i] += gpu::float_of(of_rows.x);
        to[j][2 + i] += gpu::float_of(of_rows.y);
      }
    }
    LaneGroup::sync();
    if (LaneGroup::lane() == 0) taken.arrive();
  }

 private:
  using Turns = gpu::EntryTurns<kTokenTiles>;
  // A lane's record and the words of its element.
  struct Own {
    int64_t block;
    int in_tile;  // row of the tile; -1: none
    uint32_t record;
    BlockPlace::ElementWords words;

    ECMV_GPU_DEVICE gpu::TokenEntry entry(const FieldsOnGpu& matrix) const {
      if (in_tile < 0) return {};
      const Outlier outlier(record);
      const uint32_t stored = BlockPlace(matrix, block).stored(words, outlier.col);
      // An infinite x made an infinity of the same sign, or, with w = 0, should have made a NaN.
      const float w = gpu::float_of(outlier.element(stored) << 16);
      return {in_tile, outlier.col, w - gpu::float_of(stored << 16), w};
    }
  };
  // Record number `at` of the matrix. `bound`: a lane's block's first record.
  static ECMV_GPU_DEVICE Own find(const FieldsOnGpu& matrix, const PipelineTile& tile, int64_t bound, int blocks,
                                  int64_t at, int64_t end) {
    int block = 0;
    for (int k = 1; k < blocks; ++k) block += at >= LaneGroup::shuffle(bound, k) ? 1 : 0;
    Own own{tile.first_block + block, -1, 0, {}};
    if (at >= end) return own;
    own.record = matrix.records[at];
    const Outlier outlier(own.record);
    own.in_tile = block * kBlockRows + outlier.row;
    own.words = BlockPlace(matrix, own.block).load(outlier.row, outlier.col);
    return own;
  }
};

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
