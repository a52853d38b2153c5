// Products of fragments of bf16 with many tokens: four lane groups multiply together (gpu/warpgroup_units.h), 64 rows, from their
// registers. All lane groups of a block have other rows and the same columns, and take the segments of their tiles at the
// same time, so that each slice of the tokens is in shared memory once for all of them. Blocks, the shares, share rows as in
// fragments_gpu.h.
#pragma once

#include "backends/gpu/token_copies.h"
#include "codecs/quad_huffman/fragments_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// How the numbers of two columns of the matrix are dealt to the columns of a unit, so that they meet a lane's.
struct FragmentPairs {
  static ECMV_GPU_DEVICE int unit_pair(int pair) { return (pair & ~7) | (pair & 1) << 2 | (pair >> 1 & 3); }
};

struct TogetherLayout {
  int tokens = 0;                   // two slices, behind gpu::first_block_offset()
  int shares = 0, share_tiles = 0;  // blocks with the same rows, and column tiles of each
};

// Bytes of the tokens' slice for a segment: blocks of 64 columns of the matrix.
template <int kSegmentCols, int kTokenTiles>
inline constexpr int kSliceBytes = 2 * kSegmentCols / gpu::kBlockCols*(8 * kTokenTiles * gpu::kBlockTokenBytes);

template <int kSymbolCols, int kForm, int kSymbolsOfWindow, int kTokenTiles, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void fragments_together(Matrix matrix, Plan plan,
                                                                         TogetherLayout layout, Hidden hidden,
                                                                         gpu::Bf16Tokens tokens) {
  // Lean: 128 registers are not enough for the schedule, too, and what is spilled is waited for with the loads under way.
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow, true>;
  static_assert(TileOf::kFloats);
  constexpr int kBytes = kSliceBytes<TileOf::kSegmentCols, kTokenTiles>, kSliceCols = 2 * TileOf::kSegmentCols,
                kBlockBytes = 8 * kTokenTiles * gpu::kBlockTokenBytes, kBatch = gpu::kUnitsOfBlock;
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group()),
            share = static_cast<int>(gpu::block_index() % layout.shares), first_tile = share * layout.share_tiles,
            tiles_left = matrix.column_tiles - first_tile,
            own_tiles = tiles_left < layout.share_tiles ? tiles_left : layout.share_tiles,
            steps = matrix.streams.tile_segments;
  // Row groups that do not exist are the last one again, for results that nobody stores.
  const int64_t own_group = gpu::block_index() / layout.shares * plan.lane_groups + lane_group,
                group = own_group < matrix.row_groups ? own_group : matrix.row_groups - 1;
  const gpu::Pointer<std::byte> slices = gpu::shared_memory() + (layout.tokens + gpu::first_block_offset());

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  const auto begin = [&](int number, uint32_t after) {
    tile.begin(matrix.streams, group, first_tile + number, matrix.column_tiles, matrix.cols, after);
  };
  const auto copy_tokens = [&](int number) {
    if (number < own_tiles * steps)
      gpu::copy_token_blocks(tokens, (int64_t{first_tile} * steps + number) * kSliceCols, tokens.x_stride, kSliceCols,
                             8 * kTokenTiles, slices + number % 2 * kBytes);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries<4>(matrix);
  begin(0, own_entries.all());
  fill_table(matrix, plan, own_entries);
  gpu::wait_for_previous();
  copy_tokens(0);
  gpu::commit_copies();

  const Table table = table_of(matrix, plan);
  const uint32_t lowest = in_both_halves(matrix.lowest);
  float sums[kTokenTiles][4] = {};
  for (int number = 0, slice = 0; number < own_tiles; ++number) {
    add_patches_of_tile(tile, StoredNumbers{tokens, tile.first_col() * 2}, sums);
    const int segments = tile.segments();
    for (int s = 0; s < segments; ++s, ++slice) {
      TileOf::wait_for_segment();
      gpu::order_before_units();
      gpu::sync_block();
      copy_tokens(slice + 1);
      tile.fetch(s);
      gpu::commit_copies();
      const gpu::Pointer<const std::byte> own_slice = slices + slice % 2 * kBytes;
      // Those of one block of columns are multiplied while the next ones are decoded.
      gpu::uint4 operands[2][kBatch];
      gpu::uint2 above{};
      tile.decode_one(table, s, [&](int, int quad, uint32_t exponents, uint32_t signs) {
        const FourFloats four = join(exponents, signs, lowest, exponent_unit<TileOf>(hidden));
        if (quad % 2 == 0) {
          above = {four.first, four.second};
          return;
        }
        const int unit = quad / 2, block = unit / kBatch;
        operands[block % 2][unit % kBatch] = gpu::uint4{above.x, four.first, above.y, four.second};
        if (unit % kBatch != kBatch - 1) return;
        if (block > 0) gpu::wait_for_products();
        gpu::begin_products();
        ECMV_GPU_UNROLL
        for (int k = 0; k < kBatch; ++k)
          gpu::multiply_block(operands[block % 2][k], own_slice + block * kBlockBytes, k, sums);
        gpu::commit_products();
      });
      gpu::wait_for_products();
    }
    if (number + 1 < own_tiles) begin(number + 1, 0);
  }
  gpu::wait_copies<0>();
  if (own_group >= matrix.row_groups) return;
  ECMV_GPU_UNROLL
  for (int j = 0; j < kTokenTiles; ++j) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * j + lane % 4 * 2 + i % 2;
      const int64_t row = group * kUnitRows + lane / 4 + i / 2 * 8;
      if (token < tokens.batch && row < matrix.rows)
        tokens.y[(share * tokens.batch + token) * tokens.rows + row] = sums[j][i];
    }
  }
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
