// Products with tokens of bf16 on matrix units, of int8, bf16 and f8 elements, 1 to 64 tokens. A lane decodes a row, but
// the matrix unit wants a row from four lanes; so a lane group writes what it decoded to a piece of shared memory of its
// own (rows_gpu.h), 32 rows x 64 bytes, and reads it back as operands. The lane groups of a block take the same segments
// of their tiles at the same time: those of one row group other tiles than each other, those of other row groups the
// same, so that each slice of the tokens is in shared memory once for all of them.
#pragma once

#include "backends/gpu/products/token_matmul.h"
#include "codecs/quad_huffman/gpu/tile/rows.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// What a block has in shared memory beside table, rings and pieces: slices of the tokens. Sums come last, in place of
// all that.
struct TokenLayout {
  int pieces, tokens;        // where they begin
  int token_bytes;           // from one token of a slice to the next
  uint32_t exponents;        // gpu::kInt8Exponents
  int shares, share_tiles;   // blocks that share rows (gpu/token_shares.h), and column tiles of each
  gpu::ColumnScales scales;  // of scaled products
};

// Slices of the tokens that there is room for, and the most lane groups that share a row.
inline constexpr int kTokenSlots = kAhead + 1, kMostTokenGroups = 16;

template <typename TileOf>
struct TokenPiece : RowsPiece<TileOf, gpu::kPieceRowBytes> {
  using Elements = std::conditional_t<TileOf::kF8, gpu::F8Elements,
                                      std::conditional_t<TileOf::kFloats, gpu::Bf16Elements, gpu::Int8Elements>>;
  ECMV_GPU_DEVICE gpu::TokenPiece<Elements> operands() const { return {this->bytes}; }
};

// How the lane groups multiply: each by itself, four of them as one (gpu/warpgroup_units.h), or each by itself with scales
// of groups of columns.
enum class Multiply { alone, together, scaled };

// Of 64 columns, a piece of int8 elements.
template <Multiply kMultiply>
using ScalesOf = std::conditional_t<kMultiply == Multiply::scaled, gpu::StripScales<2, 1>, gpu::NoScales>;

template <int kSymbolCols, int kForm, int kSymbolsOfWindow, int kTokenTiles, Multiply kMultiply, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void token_product(Matrix matrix, Plan plan, TokenLayout layout,
                                                                    Hidden hidden, gpu::Bf16Tokens tokens) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow>;
  using Piece = TokenPiece<TileOf>;
  constexpr int kSlots = kTokenSlots;
  constexpr bool kTogether = kMultiply == Multiply::together;
  // `row_groups` of a block, and lane groups of each. Four lane groups that multiply together have the same columns.
  const int lane_group = LaneGroup::uniform(LaneGroup::group()), parts = plan.lane_groups_of_rows,
            row_groups = plan.lane_groups / parts, part = lane_group / row_groups, row_group = lane_group % row_groups,
            lane = LaneGroup::lane(), share = static_cast<int>(gpu::block_index() % layout.shares),
            first_tile = share * layout.share_tiles, tiles_left = matrix.column_tiles - first_tile,
            own_tiles = tiles_left < layout.share_tiles ? tiles_left : layout.share_tiles;
  // Row groups that do not exist are the last one again, for results that nobody stores.
  const int64_t row_block = gpu::block_index() / layout.shares, own_group = row_block * row_groups + row_group,
                group = own_group < matrix.row_groups ? own_group : matrix.row_groups - 1;
  const int steps = matrix.streams.tile_segments, rounds = (own_tiles + parts - 1) / parts,
            tile_cols = steps * TileOf::kSegmentCols;
  const gpu::Pointer<std::byte> all_slices = gpu::shared_memory() + layout.tokens,
                                slices = kTogether ? gpu::first_block(all_slices) : all_slices;
  Piece piece{
      {gpu::shared_memory() + (layout.pieces + lane_group * gpu::kPieceBytes), Piece::in_all_elements(matrix.lowest)}};
  constexpr int kPartBytes = TileOf::kSegmentCols / gpu::kBlockCols * 8 * kTokenTiles * gpu::kBlockTokenBytes;
  const int part_bytes = kTogether ? kPartBytes : tokens.batch * layout.token_bytes, slice_bytes = parts * part_bytes,
            own_tokens_at = part * part_bytes + (kTogether ? 0 : lane % 4 * Piece::Elements::kCols * 2);

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  gpu::let_next_begin();
  const auto own_entries = load_own_entries<4>(matrix);
  // Slice number `step` of all, and the place that it has.
  int place_to_copy = 0, place_to_read = 0;
  const auto copy_tokens = [&](int round, int s) {
    for (; s >= steps; s -= steps) ++round;
    const gpu::Pointer<std::byte> to = slices + place_to_copy * slice_bytes;
    const int64_t first_col = ((int64_t{first_tile} + round * parts) * steps + s) * TileOf::kSegmentCols;
    if (round < rounds) {
      if constexpr (kTogether) {
        for (int p = 0; p < parts; ++p)
          gpu::copy_token_blocks(tokens, first_col + int64_t{p} * tile_cols, tokens.x_stride, TileOf::kSegmentCols,
                                 8 * kTokenTiles, to + p * kPartBytes);
      } else {
        gpu::copy_token_slices(tokens, parts, tile_cols, first_col, TileOf::kSegmentCols, layout.token_bytes, to);
      }
    }
    place_to_copy = place_to_copy == kSlots - 1 ? 0 : place_to_copy + 1;
  };
  fill_table(matrix, plan, own_entries);
  gpu::wait_for_previous();
  ECMV_GPU_UNROLL
  for (int s = 0; s < kAhead; ++s) {
    copy_tokens(s / steps, s % steps);
    gpu::commit_copies();
  }
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  typename Piece::Elements elements;
  if constexpr (!TileOf::kFloats) elements.exponents = layout.exponents;
  float sums[2][kTokenTiles][4] = {};
  // Of a piece's columns, asked for before the piece is decoded.
  [[maybe_unused]] ScalesOf<kMultiply> scales(layout.scales, group * kLanes + lane / 4, matrix.rows - 1, matrix.cols);
  for (int round = 0; round < rounds; ++round) {
    const int number = round * parts + part, column = first_tile + number;
    const bool has = number < own_tiles;
    if (has) tile.begin(matrix.streams, group, column, matrix.column_tiles, matrix.cols);
    typename TileOf::PatchWalk patches;
    if (has) patches = tile.patch_walk();
    scales.load(column * tile_cols);
    for (int s = 0; s < steps; ++s) {
      tile.wait_for_segment();
      if constexpr (kTogether) gpu::order_before_units();
      gpu::sync_block();
      const bool decodes = has && s < tile.segments();
      copy_tokens(round, s + kAhead);
      if (decodes) tile.fetch(s);
      gpu::commit_copies();
      const gpu::Pointer<const std::byte> own_tokens = slices + (place_to_read * slice_bytes + own_tokens_at);
      place_to_read = place_to_read == kSlots - 1 ? 0 : place_to_read + 1;
      if (!decodes) continue;
      piece.decode(tile, table, s, patches, [&](int col, int) {
        const int first_col = col - s * TileOf::kSegmentCols;
        const auto operands = piece.operands();
        if constexpr (kTogether) {
          operands.template multiply_together<kTokenTiles>(elements, own_tokens, first_col, sums);
        } else if constexpr (kMultiply == Multiply::scaled) {
          const auto of_piece = scales;
          scales.load(column * tile_cols + col + Piece::kCols);
          float products[2][kTokenTiles][4] = {};
          operands.template multiply<kTokenTiles>(elements, own_tokens + first_col * 2, layout.token_bytes,
                                                  tokens.batch, products);
          ECMV_GPU_UNROLL
          for (int r = 0; r < 2; ++r) gpu::add_scaled(products[r], of_piece.words[r][0], sums[r]);
        } else {
          operands.template multiply<kTokenTiles>(elements, own_tokens + first_col * 2, layout.token_bytes,
                                                  tokens.batch, sums);
        }
      });
    }
  }
  gpu::wait_copies<0>();
  gpu::sync_block();

  gpu::store_piece_sums<kTokenTiles>(sums, {part, parts, row_group, row_groups, share, row_block}, tokens);
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
