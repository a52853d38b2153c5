// Products with tokens of bf16 on matrix units, of int8 and of bf16 elements, 1 to 64 tokens. A lane decodes a row, but
// the matrix unit wants a row from four lanes; so a lane group writes what it decoded to a piece of shared memory of its
// own (rows_gpu.h), 32 rows x 64 bytes, and reads it back as operands. The lane groups of a block take the same segments of their tiles at the same time: those of one row group other tiles than each other,
// those of other row groups the same, so that each slice of the tokens is in shared memory once for all of them.
#pragma once

#include "backends/gpu/token_matmul.h"
#include "codecs/quad_huffman/rows_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

inline constexpr int kPieceRowBytes = 64, kPieceBytes = kLanes * kPieceRowBytes;

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
struct TokenPiece : RowsPiece<TileOf, kPieceRowBytes> {
  using Rows = RowsPiece<TileOf, kPieceRowBytes>;
  using Elements = std::conditional_t<TileOf::kFloats, gpu::Bf16Elements, gpu::Int8Elements>;

  // C += the piece's rows times the tokens' numbers at `tokens`, this lane's of its token of the first tile.
  template <int kTokenTiles>
  ECMV_GPU_DEVICE void multiply(const Elements& elements, gpu::Pointer<const std::byte> tokens, int token_bytes,
                                int batch, float (&sums)[2][kTokenTiles][4]) const {
    const int g = LaneGroup::lane() / 4;
    gpu::uint4 rows[4][1];
    load_rows(rows);
    ECMV_GPU_UNROLL
    for (int eighth = 0; eighth < Elements::kCols / 8; ++eighth) {
      gpu::uint4 a[2][2];
      ECMV_GPU_UNROLL
      for (int r = 0; r < 2; ++r) elements.operands(rows[2 * r][0], rows[2 * r + 1][0], eighth, a[r]);
      ECMV_GPU_UNROLL
      for (int tile = 0; tile < kTokenTiles; ++tile) {
        // Lanes of tokens that do not exist multiply the last one again, for results that nobody stores.
        const int token = 8 * tile + g < batch ? 8 * tile + g : batch - 1;
        const gpu::uint4 x = *gpu::cast<const gpu::uint4>(tokens + (token * token_bytes + eighth * 16));
        ECMV_GPU_UNROLL
        for (int r = 0; r < 2; ++r) {
          gpu::multiply_tokens(a[r][0], gpu::uint2{x.x, x.y}, sums[r][tile]);
          gpu::multiply_tokens(a[r][1], gpu::uint2{x.z, x.w}, sums[r][tile]);
        }
      }
    }
  }
  // The same by four lane groups, with the blocks of a slice; `col` is the piece's first one in the slice. Waits, for nvcc
  // would wait after each product if registers were in use behind this.
  template <int kTokenTiles>
  ECMV_GPU_DEVICE void multiply_together(const Elements& elements, gpu::Pointer<const std::byte> slice, int col,
                                         float (&sums)[2][kTokenTiles][4]) const {
    gpu::uint4 rows[4][1];
    load_rows(rows);
    gpu::TokenForm<Elements, 16, 2, kTokenTiles, 1, true>::multiply_together(elements, rows, slice, col, sums);
    gpu::wait_for_products();
  }

 private:
  // Rows g, g + 8, g + 16, g + 24.
  ECMV_GPU_DEVICE void load_rows(gpu::uint4 (&rows)[4][1]) const {
    const gpu::Pointer<const gpu::uint4> own =
        gpu::cast<const gpu::uint4>(this->bytes + Rows::place(LaneGroup::lane() / 4, LaneGroup::lane() % 4));
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) rows[i][0] = own[i * (8 * kPieceRowBytes / 16)];
  }
};

// Starts the copies of a segment of the tokens for every part: part p's begins at column p * tile_cols + first_col.
ECMV_GPU_DEVICE void copy_token_slices(const gpu::Bf16Tokens& tokens, int parts, int tile_cols, int64_t first_col,
                                       int segment, int token_bytes, gpu::Pointer<std::byte> to) {
  constexpr int kEach = 8;
  const int chunks = segment / kEach;
  for (int i = gpu::thread_index(); i < parts * tokens.batch * chunks; i += gpu::block_size()) {
    const int row = i / chunks, part = row / tokens.batch, token = row % tokens.batch;
    const int64_t col = first_col + int64_t{part} * tile_cols + i % chunks * kEach;
    const gpu::Pointer<std::byte> place = to + (row * token_bytes + i % chunks * kEach * 2);
    if (col < tokens.x_stride)
      gpu::copy_async<16>(place, gpu::cast<const std::byte>(tokens.x + (token * tokens.x_stride + col)));
    else
      *gpu::cast<gpu::uint4>(place) = gpu::uint4{};
  }
}

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
  const gpu::Pointer<std::byte> slices =
      gpu::shared_memory() + (layout.tokens + (kTogether ? gpu::first_block_offset() : 0));
  Piece piece{
      {gpu::shared_memory() + (layout.pieces + lane_group * kPieceBytes), Piece::in_all_elements(matrix.lowest)}};
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
          gpu::copy_token_blocks<typename Piece::Elements>(tokens, first_col + int64_t{p} * tile_cols, tokens.x_stride,
                                                           TileOf::kSegmentCols, plan.lane_groups, 8 * kTokenTiles,
                                                           to + p * kPartBytes);
      } else {
        copy_token_slices(tokens, parts, tile_cols, first_col, TileOf::kSegmentCols, layout.token_bytes, to);
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
      TileOf::wait_for_segment();
      if constexpr (kTogether) gpu::order_before_units();
      gpu::sync_block();
      const bool decodes = has && s < tile.segments();
      copy_tokens(round, s + kAhead);
      if (decodes) tile.fetch(s);
      gpu::commit_copies();
      const gpu::Pointer<const std::byte> own_tokens = slices + (place_to_read * slice_bytes + own_tokens_at);
      place_to_read = place_to_read == kSlots - 1 ? 0 : place_to_read + 1;
      if (!decodes) continue;
      piece.decode(tile, table, s, patches, [&](int first_col) {
        if constexpr (kTogether) {
          piece.template multiply_together<kTokenTiles>(elements, own_tokens, first_col, sums);
        } else if constexpr (kMultiply == Multiply::scaled) {
          const auto of_piece = scales;
          scales.load(column * tile_cols + s * TileOf::kSegmentCols + first_col + Piece::Rows::kCols);
          float products[2][kTokenTiles][4] = {};
          piece.template multiply<kTokenTiles>(elements, own_tokens + first_col * 2, layout.token_bytes, tokens.batch,
                                               products);
          ECMV_GPU_UNROLL
          for (int r = 0; r < 2; ++r) gpu::add_scaled(products[r], of_piece.words[r][0], sums[r]);
        } else {
          piece.template multiply<kTokenTiles>(elements, own_tokens + first_col * 2, layout.token_bytes, tokens.batch,
                                               sums);
        }
      });
    }
  }
  gpu::wait_copies<0>();
  gpu::sync_block();

  // [parts, batch, rows of the block], added up and stored row by row. What lanes put at once is in different banks.
  const int block_rows = row_groups * kLanes, token_sums = block_rows + gpu::kSumsPadding, g = lane / 4, t = lane % 4;
  const gpu::Pointer<float> all = gpu::cast<float>(gpu::shared_memory());
  ECMV_GPU_UNROLL
  for (int r = 0; r < 2; ++r) {
    ECMV_GPU_UNROLL
    for (int k = 0; k < kTokenTiles; ++k) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * k + 2 * t + i % 2;
        if (token < tokens.batch)
          all[(part * tokens.batch + token) * token_sums + row_group * kLanes + r * 16 + g + i / 2 * 8] = sums[r][k][i];
      }
    }
  }
  gpu::sync_block();
  const int64_t block_first = row_block * block_rows, rows_left = tokens.rows - block_first;
  const int own_rows = rows_left < block_rows ? static_cast<int>(rows_left) : block_rows;
  gpu::Pointer<float> y = tokens.y + (share * (tokens.batch * tokens.rows) + block_first);
  for (int token = 0; token < tokens.batch; ++token, y = y + tokens.rows) {
    for (int row = gpu::thread_index(); row < own_rows; row += gpu::block_size()) {
      float sum = all[token * token_sums + row];
      for (int p = 1; p < parts; ++p) sum += all[(p * tokens.batch + token) * token_sums + row];
      y[row] = sum;
    }
  }
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
