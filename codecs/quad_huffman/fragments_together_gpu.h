// Products of fragments of bf16 with many tokens: four lane groups multiply together (gpu/warpgroup_units.h), 64 rows, from their
// registers. All lane groups of a block have other rows and the same columns, and take the segments of their tiles at the
// same time, so that each slice of the tokens is in shared memory once for all of them. Blocks, the shares, share rows as in
// fragments_gpu.h.
//
// With 64 tokens a lane has 32 sums. A block has up to 24 lane groups of 80 registers: each unit is multiplied as soon as it is
// decoded, for four at a time would take 32 registers. (H200, 64 tokens, us, with 16 lane groups of 128 registers and so: 8192 x
// 28672 167.1, 147.2; 8192 x 8192 54.6, 51.6; 16384 x 16384 168.5, 166.6.)
#pragma once

#include "backends/gpu/token_copies.h"
#include "codecs/quad_huffman/fragments_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

struct TogetherLayout {
  int patches = 0;                  // of each lane group, [kListedBytes]
  int tokens = 0;                   // two slices, from gpu::first_block() on
  int shares = 0, share_tiles = 0;  // blocks with the same rows, and column tiles of each
};

// Bytes of the tokens' slice for a segment: blocks of 64 columns of the matrix.
template <int kSegmentCols, int kTokenTiles>
inline constexpr int kSliceBytes = 2 * kSegmentCols / gpu::kBlockCols*(8 * kTokenTiles * gpu::kBlockTokenBytes);

inline constexpr int kListedBytes = 2 * kLanes * 8;

// The patches of a tile of bf16, kMost at once, in shared memory: slices of tokens are there for a segment's time, and patches of
// a segment's columns follow each other. (H200, 16384 x 16384, 64 tokens: with their tokens' numbers from memory as a tile
// begins, 8 loads waited for one after the other, a product took 275 us with T = 12 and 208 with T = 13, which has fewer.)
template <int kTokenTiles, int kSegmentCols>
class ListedPatches {
 public:
  static constexpr int kMost = 2 * kLanes, kBytes = kListedBytes;

  explicit ECMV_GPU_DEVICE ListedPatches(gpu::Pointer<std::byte> list) : list_(list) {}

  // Those of a tile, from number `first` on; all lanes of the lane group.
  template <typename TileOf>
  ECMV_GPU_DEVICE void read(const TileOf& tile, uint32_t first) {
    uint32_t cols[2];
    first_ = first;
    next_ = 0;
    LaneGroup::sync();
    tile.read_float_patches(first, [&](int k, bool has, const FloatPatch& patch, uint32_t sign) {
      const int unit = patch.col % kSegmentCols / kFragmentCols,
                pair = unit % gpu::kUnitsOfBlock * 8 + fragment_pair(patch.row, patch.col);
      const uint32_t place = static_cast<uint32_t>(unit / gpu::kUnitsOfBlock * kBlockBytes + pair % 4 * 4 +
                                                   patch.col % 2 * 2),
                     facts = place << (kUnitRowBits + 3) | static_cast<uint32_t>(pair / 4) << kUnitRowBits |
                             (has ? unit_row(patch.row, patch.col) : kNoUnitRow),
                     gains = unscaled_bits_of<TileOf>(patch.exponent, sign),
                     loses = unscaled_bits_of<TileOf>(patch.stand_in, sign);
      *gpu::cast<gpu::uint2>(list_ + (k * kLanes + LaneGroup::lane()) * 8) =
          gpu::uint2{facts, gains | (loses ^ 0x8000) << 16};
      cols[k] = has ? static_cast<uint32_t>(patch.col) : kNoCol;
    });
    cols_ = cols[0] | cols[1] << 16;
    LaneGroup::sync();
  }

  // Adds those of segment s, before it is decoded; its tokens are at `slice`.
  template <typename TileOf>
  ECMV_GPU_DEVICE void add(const TileOf& tile, int s, gpu::Pointer<const std::byte> slice,
                           float (&sums)[kTokenTiles][4]) {
    const uint32_t end_col = static_cast<uint32_t>((s + 1) * kSegmentCols);
    for (;;) {
      const int end = gpu::popcount(LaneGroup::ballot((cols_ & 0xFFFF) < end_col)) +
                      gpu::popcount(LaneGroup::ballot(cols_ >> 16 < end_col));
      ECMV_GPU_NO_UNROLL
      for (; next_ < end; next_ += kAtOnce) add_some(end, slice, sums);
      next_ = end;
      if (end < kMost || first_ + kMost >= tile.patch_count()) return;
      read(tile, first_ + kMost);
    }
  }

 private:
  static constexpr int kAtOnce = 8;
  static constexpr int kBlockBytes = 8 * kTokenTiles * gpu::kBlockTokenBytes;
  static constexpr uint32_t kNoCol = 0xFFFF;
  gpu::Pointer<std::byte> list_;  // [kMost] facts and numbers, as of multiply_float_patches()
  uint32_t cols_ = 0;             // of patches number `lane` and 32 further
  uint32_t first_ = 0;            // of the tile's
  int next_ = 0;                  // of the list's

  ECMV_GPU_DEVICE void add_some(int end, gpu::Pointer<const std::byte> slice, float (&sums)[kTokenTiles][4]) const {
    const int lane = LaneGroup::lane(), t = lane % 4;
    const gpu::Pointer<const std::byte> own = slice + lane / 4 * gpu::kBlockTokenBytes;
    uint32_t facts[2], words[2];
    int at[2];
    ECMV_GPU_UNROLL
    for (int k = 0; k < 2; ++k) {
      const int number = next_ + 4 * k + t;
      const gpu::uint2 listed = *gpu::cast<const gpu::uint2>(list_ + (number < kMost ? number : 0) * 8);
      facts[k] = number < end ? listed.x : kNoUnitRow;
      words[k] = listed.y;
      const uint32_t part = (facts[k] >> kUnitRowBits & 7) ^ static_cast<uint32_t>(lane / 4);
      at[k] = static_cast<int>((facts[k] >> (kUnitRowBits + 3)) + part * 16);
    }
    const gpu::uint4 a = patch_operand(facts, words);
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTokenTiles; ++j) {
      const auto both = [&](int k) {
        return *gpu::cast<const uint16_t>(own + (at[k] + j * (8 * gpu::kBlockTokenBytes))) * 0x10001u;
      };
      gpu::multiply_tokens(a, gpu::uint2{both(0), both(1)}, sums[j]);
    }
  }
};

template <int kSymbolCols, int kForm, int kSymbolsOfWindow, int kTokenTiles, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void fragments_together(Matrix matrix, Plan plan,
                                                                         TogetherLayout layout, Hidden hidden,
                                                                         gpu::Bf16Tokens tokens) {
  // Raw bits half a batch at a time, and the schedule in shared memory: 80 registers are just enough, and what is spilled is
  // waited for with the loads under way.
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow,
                           LaneForm{.lean = true, .prefetches = false, .early = gpu::kMovesLoads, .halves = true}>;
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
  const gpu::Pointer<std::byte> slices = gpu::first_block(gpu::shared_memory() + layout.tokens);

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  using Patches = ListedPatches<kTokenTiles, TileOf::kSegmentCols>;
  Patches patches(gpu::shared_memory() + (layout.patches + lane_group * Patches::kBytes));
  const auto begin = [&](int number, uint32_t after) {
    tile.template begin<true>(matrix.streams, group, first_tile + number, matrix.column_tiles, matrix.cols, after);
  };
  const auto copy_tokens = [&](int number) {
    if (number < own_tiles * steps)
      gpu::copy_blocks_of_tokens<8 * kTokenTiles>(tokens, (int64_t{first_tile} * steps + number) * kSliceCols,
                                                  tokens.x_stride, kSliceCols, slices + number % 2 * kBytes);
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
    patches.read(tile, 0);
    tile.begin_raw();
    const int segments = tile.segments();
    for (int s = 0; s < segments; ++s, ++slice) {
      tile.wait_for_segment();
      gpu::order_before_units();
      gpu::sync_block();
      copy_tokens(slice + 1);
      tile.fetch(s);
      gpu::commit_copies();
      const gpu::Pointer<const std::byte> own_slice = slices + slice % 2 * kBytes;
      const gpu::SharedBlocks blocks(own_slice);
      patches.add(tile, s, own_slice, sums);
      // A unit is multiplied while the next one is decoded.
      gpu::uint4 operands[2];
      gpu::uint2 above{};
      tile.decode_one(table, s, [&](int, int quad, uint32_t exponents, uint32_t signs) {
        const FourFloats four = join(exponents, signs, lowest, exponent_unit<TileOf>(hidden));
        if (quad % 2 == 0) {
          above = {four.first, four.second};
          return;
        }
        const int unit = quad / 2;
        operands[unit % 2] = gpu::uint4{above.x, four.first, above.y, four.second};
        if (unit > 0) gpu::wait_for_products();
        gpu::begin_products();
        gpu::multiply_block(operands[unit % 2], blocks, unit / kBatch * kBlockBytes, unit % kBatch, sums);
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
