// Products of fragments (fragments.h) with tokens of bf16 on matrix units. Eight columns that a lane has decoded are its part of
// operand A as they are, all of it useful: one matrix product for eight tokens, where rows that lanes own (few_tokens_gpu.h)
// take one for four. Several blocks, the shares, take some of the columns each, so that their tokens are in shared memory as
// a whole, in the order in which lanes read them as operand B; what they sum up is added by a launch behind the product
// (gpu/token_shares.h). Numbers of int8 elements are those of few_tokens.
#pragma once

#include "codecs/quad_huffman/few_tokens_gpu.h"
#include "codecs/quad_huffman/fragment_patches_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Tiles of tokens at most of a kernel whose lane groups multiply alone.
inline constexpr int kFragmentTiles = 2, kFragmentTokens = kFragmentTile * kFragmentTiles;

// Where things lie in shared memory beside table and rings.
struct FragmentsLayout {
  int tokens = 0;  // [units, kUnitTokenBytes]
  int facts = 0;   // of int8 elements, [2, tokens, 32]: of each token the largest number's bits, and the sum
  int shares = 0, share_tiles = 0;  // blocks with the same rows, and column tiles of each
};

// The share's columns of all tokens to shared memory, zeros for tokens and columns that do not exist; shift_of(token): by how
// many powers of two they are scaled. `cols` are those of the matrix.
template <int kTiles, bool kScaled, typename ShiftOf>
ECMV_GPU_DEVICE void load_fragment_tokens(const gpu::Bf16Tokens& x, const TileCols& cols, gpu::Pointer<std::byte> to,
                                          ShiftOf shift_of) {
  constexpr int kTokens = kTiles * kFragmentTile;
  for (int i = gpu::thread_index(); i < cols.stored / kUnitCols * kTokens; i += gpu::block_size()) {
    const int unit = i / kTokens, token = i % kTokens, col = unit * kUnitCols;
    gpu::uint4 first = eight_numbers(x, token, cols, col), second = eight_numbers(x, token, cols, col + 8);
    if constexpr (kScaled) {
      const TokenFactors factors = factors_of(token < x.batch ? shift_of(token) : 0);
      first = scaled(first, factors), second = scaled(second, factors);
    }
    const gpu::Pointer<std::byte> place =
        to + (unit * kUnitTokenBytes<kTiles> + token % kFragmentTile * 4 * kTiles * 8 + token / kFragmentTile * 8);
    *gpu::cast<gpu::uint2>(place) = gpu::uint2{first.x, first.y};
    *gpu::cast<gpu::uint2>(place + kTiles * 8) = gpu::uint2{first.z, first.w};
    *gpu::cast<gpu::uint2>(place + 2 * kTiles * 8) = gpu::uint2{second.x, second.y};
    *gpu::cast<gpu::uint2>(place + 3 * kTiles * 8) = gpu::uint2{second.z, second.w};
  }
}

// Calls visit(segment, unit of the segment, operand A) for all units of the tile.
template <typename TileOf, typename Visit>
ECMV_GPU_DEVICE void decode_fragments(TileOf& tile, const Table& table, uint32_t lowest, const Hidden& hidden,
                                      Visit visit) {
  gpu::uint2 above{};
  const auto visit_quad = [&](int segment, int quad, gpu::uint2 four) {
    if (quad % 2 == 0)
      above = four;
    else
      visit(segment, quad / 2, gpu::uint4{above.x, four.x, above.y, four.y});
  };
  if constexpr (TileOf::kFloats)
    tile.decode(table, [&](int segment, int quad, uint32_t exponents, uint32_t signs) {
      const FourFloats four = join(exponents, signs, lowest, exponent_unit<TileOf>(hidden));
      visit_quad(segment, quad, gpu::uint2{four.first, four.second});
    });
  else
    tile.decode_integers(table, [&](int segment, int quad, uint32_t first, uint32_t second) {
      visit_quad(segment, quad, gpu::uint2{first, second});
    });
}

// The columns of the matrix that some column tiles of fragments have, of which `all` exist.
ECMV_GPU_DEVICE TileCols matrix_cols(const TileCols& stored, int all) {
  return {2 * stored.first, all, 2 * stored.stored};
}

template <int kSymbolCols, int kForm, int kSymbolsOfWindow, int kTiles, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void fragment_tokens(Matrix matrix, Plan plan, FragmentsLayout layout,
                                                                      Hidden hidden, int all_cols,
                                                                      gpu::Bf16Tokens tokens) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow, true>;
  constexpr bool kFloats = TileOf::kFloats;
  constexpr int kEach = kUnitTokenBytes<kTiles>, kOfSegment = TileOf::kSegmentCols / kFragmentCols * kEach;
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group()),
            share = static_cast<int>(gpu::block_index() % layout.shares), first_tile = share * layout.share_tiles,
            tiles_left = matrix.column_tiles - first_tile,
            own_tiles = tiles_left < layout.share_tiles ? tiles_left : layout.share_tiles;
  const TileCols cols = matrix_cols(cols_of_tiles(matrix, first_tile, own_tiles, TileOf::kSegmentCols), all_cols);
  // A block takes several row groups in turn: table and tokens are there once.
  const int64_t step = gpu::grid_size() / layout.shares * plan.lane_groups;
  int64_t group = gpu::block_index() / layout.shares * plan.lane_groups + lane_group;
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + layout.tokens;
  const gpu::Pointer<uint32_t> largest = gpu::cast<uint32_t>(gpu::shared_memory() + layout.facts);
  const gpu::Pointer<float> totals = gpu::cast<float>(largest + kTiles * kFragmentTile * kLanes);

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  const auto begin = [&](int number, uint32_t after) {
    tile.template begin<true>(matrix.streams, group, first_tile + number, matrix.column_tiles, matrix.cols, after);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries<4>(matrix);
  if (group < matrix.row_groups) begin(0, own_entries.all());
  fill_table(matrix, plan, own_entries);
  gpu::wait_for_previous();
  if constexpr (!kFloats) {
    look_at_tokens(tokens, cols, plan.lane_groups, largest, totals);
    gpu::sync_block();
  }
  const auto shift_of = [&](int token) { return token_shift(largest[token * kLanes]); };
  load_fragment_tokens<kTiles, !kFloats>(tokens, cols, inputs, shift_of);
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  const uint32_t lowest = in_both_halves(matrix.lowest);
  const gpu::Pointer<const std::byte> own_inputs = inputs + lane * kTiles * 8;
  float sums[kTiles][4] = {};
  int number = 0;
  while (group < matrix.row_groups) {
    const int tile_at = (tile.first_col() - cols.first / 2) / kFragmentCols * kEach;
    multiply_patches(tile, SharedNumbers<kTiles>(inputs + tile_at), sums);
    tile.begin_raw();
    const gpu::Pointer<const std::byte> tile_inputs = own_inputs + tile_at;
    decode_fragments(tile, table, lowest, hidden, [&](int segment, int unit, gpu::uint4 a) {
      const gpu::Pointer<const std::byte> at = tile_inputs + (segment * kOfSegment + unit * kEach);
      if constexpr (kTiles == 1) {
        gpu::multiply_tokens(a, *gpu::cast<const gpu::uint2>(at), sums[0]);
      } else {
        const gpu::uint4 x = *gpu::cast<const gpu::uint4>(at);
        gpu::multiply_tokens(a, gpu::uint2{x.x, x.y}, sums[0]);
        gpu::multiply_tokens(a, gpu::uint2{x.z, x.w}, sums[1]);
      }
    });
    const int64_t first_row = group * kUnitRows;
    const bool ends = ++number == own_tiles;
    if (ends) number = 0, group += step;
    if (group < matrix.row_groups) begin(number, 0);
    if (!ends) continue;
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTiles; ++j) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int token = j * kFragmentTile + lane % 4 * 2 + i % 2;
        const int64_t row = first_row + lane / 4 + i / 2 * 8;
        float sum = sums[j][i];
        sums[j][i] = 0;
        if (token >= tokens.batch || row >= matrix.rows) continue;
        if constexpr (!kFloats) {
          sum = scaled(sum, 133 - shift_of(token) - (TileOf::Bytes::kFolds ? 1 : 0));
          sum += (static_cast<float>(matrix.lowest) - (TileOf::Bytes::kFolds ? 0.5f : 0.0f)) * totals[token * kLanes];
        }
        tokens.y[(share * tokens.batch + token) * tokens.rows + row] = sum;
      }
    }
  }
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
