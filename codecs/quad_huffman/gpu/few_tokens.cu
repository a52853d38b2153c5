// Products with up to 16 tokens of bf16 on matrix units, without a detour through shared memory: what a lane decodes of its
// row, eight columns at a time, is its part of an operand as it is (gpu/row_units.h). Several blocks, the shares, take
// some of the columns each, so that their tokens are in shared memory as a whole; what they sum up is added by a launch
// behind the product (gpu/token_shares.h).
//
// int8 elements are made numbers of bf16 by nothing but byte permutations: an integer of 8 bits in the low byte of a bf16
// is that many times 2^-133, also across the border of the normal numbers, and matrix units multiply subnormal numbers
// as any others. Tokens are scaled up by a power of two in return. Folded cells are a sign and a magnitude: of v = w -
// lowest = m or -1 - m the number is 2 v + 1, so that sign and magnitude stay apart; half the sum of the tokens' numbers
// is taken away at the end. f8 elements want scaled tokens, too (floats_gpu.h). Operations for four columns beyond the
// codes': 1 multiply-add and 1 logic operation (folded cells), 2 byte permutations; 0.5 matrix products and 0.5 loads of 16 bytes for each four tokens.
#pragma once

#include "backends/gpu/products/row_units.h"
#include "codecs/quad_huffman/gpu/tile/floats.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Tokens of a tile, and tiles at most.
inline constexpr int kFewTile = 4, kFewTiles = 4, kFewTokens = kFewTile * kFewTiles;

// Behind each pair, so that what lanes read of two pairs at once lies in different banks.
inline constexpr int kPairPadding = 32;

// Where things lie in shared memory beside table and rings: pairs of tokens [pairs, pair_bytes], and of each token and lane
// group the largest number's bits and the sum [2, tokens, 32].
struct FewLayout {
  int tokens = 0, pair_bytes = 0, facts = 0;
  int shares = 0, share_tiles = 0;  // blocks with the same rows, and column tiles of each
};

// x' = x * 2^shift has its largest number at about 2^100.
ECMV_GPU_DEVICE int token_shift(uint32_t largest) { return largest == 0 ? 0 : 227 - static_cast<int>(largest >> 7); }
// The powers of two that two numbers of bf16 in a word are multiplied with, one after the other.
struct TokenFactors {
  uint32_t first, second;
};
ECMV_GPU_DEVICE TokenFactors factors_of(int shift) {
  const int half = shift / 2;
  return {static_cast<uint32_t>(127 + half) << 7 | static_cast<uint32_t>(127 + half) << 23,
          static_cast<uint32_t>(127 + shift - half) << 7 | static_cast<uint32_t>(127 + shift - half) << 23};
}
ECMV_GPU_DEVICE gpu::uint4 scaled(gpu::uint4 numbers, TokenFactors factors) {
  const auto both = [&](uint32_t word) {
    return gpu::multiply_pairs(gpu::multiply_pairs(word, factors.first), factors.second);
  };
  return {both(numbers.x), both(numbers.y), both(numbers.z), both(numbers.w)};
}

ECMV_GPU_DEVICE gpu::uint4 eight_numbers(const gpu::Bf16Tokens& x, int token, const TileCols& cols, int col) {
  if (token >= x.batch || cols.first + col >= cols.end) return {};
  return *gpu::cast<const gpu::uint4>(x.x + (token * x.x_stride + cols.first + col));
}

// What is known of some numbers of a token.
struct TokenFacts {
  uint32_t most = 0;  // bits of the largest one, without sign
  float total = 0;

  ECMV_GPU_DEVICE void add(gpu::uint4 eight) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < 8; ++i) {
      const uint32_t half = gpu::word_of(eight, i / 2) >> (i % 2 * 16) & 0xFFFF;
      most = (half & 0x7FFF) > most ? half & 0x7FFF : most;
      total += gpu::float_of(half << 16);
    }
  }
  // All lanes' together.
  ECMV_GPU_DEVICE void join() {
    most = static_cast<uint32_t>(LaneGroup::reduce_max(static_cast<int32_t>(most)));
    ECMV_GPU_UNROLL
    for (int distance = kLanes / 2; distance > 0; distance /= 2) total += LaneGroup::shuffle_xor(total, distance);
  }
};
// Once all threads have met: joins the facts of `parts` parts of each token's columns, at 32 * token + part of `largest` and
// `totals`, at 32 * token.
ECMV_GPU_DEVICE void join_token_facts(int batch, int lane_groups, int parts, gpu::Pointer<uint32_t> largest,
                                      gpu::Pointer<float> totals) {
  const int lane = LaneGroup::lane();
  for (int token = LaneGroup::group(); token < batch; token += lane_groups) {
    TokenFacts facts;
    if (lane < parts) facts = {largest[token * kLanes + lane], totals[token * kLanes + lane]};
    facts.join();
    LaneGroup::sync();
    if (lane == 0) largest[token * kLanes] = facts.most, totals[token * kLanes] = facts.total;
  }
}

// The largest number and the sum of each token's columns, at 32 * token of `largest` and `totals` once all threads have met.
// Several lane groups look at a token, and all tokens are looked at at once. (H200, 16384 x 16384, 16 tokens: a
// product of fragments of int8 took 78 us so, and 83 with one token after the other.)
ECMV_GPU_DEVICE void look_at_tokens(const gpu::Bf16Tokens& x, const TileCols& cols, int lane_groups,
                                    gpu::Pointer<uint32_t> largest, gpu::Pointer<float> totals) {
  constexpr int kLoads = 4;  // under way
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::group(),
            tokens = x.batch < lane_groups ? x.batch : lane_groups, parts = lane_groups / tokens,
            part = lane_group / tokens;
  if (part < parts) {
    for (int token = lane_group % tokens; token < x.batch; token += tokens) {
      TokenFacts facts;
      const int step = parts * kLanes * 8;
      ECMV_GPU_NO_UNROLL
      for (int col = (part * kLanes + lane) * 8; col < cols.stored; col += kLoads * step) {
        gpu::uint4 words[kLoads];
        ECMV_GPU_UNROLL
        for (int k = 0; k < kLoads; ++k)
          words[k] = col + k * step < cols.stored ? eight_numbers(x, token, cols, col + k * step) : gpu::uint4{};
        ECMV_GPU_UNROLL
        for (int k = 0; k < kLoads; ++k) facts.add(words[k]);
      }
      facts.join();
      if (lane == 0) largest[token * kLanes + part] = facts.most, totals[token * kLanes + part] = facts.total;
    }
  }
  gpu::sync_block();
  join_token_facts(x.batch, lane_groups, parts, largest, totals);
}

// The share's columns of all tokens to shared memory, zeros for tokens and columns that do not exist; shift_of(token): by how
// many powers of two they are scaled.
template <bool kScaled, typename ShiftOf>
ECMV_GPU_DEVICE void load_few_tokens(const gpu::Bf16Tokens& x, const TileCols& cols, int pairs, int pair_bytes,
                                     gpu::Pointer<std::byte> to, ShiftOf shift_of) {
  for (int pair = 0; pair < pairs; ++pair) {
    const auto factors = [&](int token) { return factors_of(token < x.batch ? shift_of(token) : 0); };
    [[maybe_unused]] TokenFactors of_one{}, of_other{};
    if constexpr (kScaled) of_one = factors(2 * pair), of_other = factors(2 * pair + 1);
    for (int col = gpu::thread_index() * 8; col < cols.stored; col += gpu::block_size() * 8) {
      gpu::uint4 one = eight_numbers(x, 2 * pair, cols, col), other = eight_numbers(x, 2 * pair + 1, cols, col);
      if constexpr (kScaled) one = scaled(one, of_one), other = scaled(other, of_other);
      const gpu::Pointer<gpu::uint4> place =
          gpu::cast<gpu::uint4>(to + (pair * pair_bytes + col * gpu::kOwnTokenBytes));
      place[0] = gpu::uint4{one.x, other.x, one.z, other.z};
      place[1] = gpu::uint4{one.y, other.y, one.w, other.w};
    }
  }
}

// What a patch adds to the sums of its row: `change` times the numbers of its column, in all tiles. `tokens` are those of this
// lane's pair, from the tile's first column on, and tiles are `tile_bytes` apart.
template <int kTiles>
ECMV_GPU_DEVICE void add_patches(bool has, int row, int col, float change, gpu::Pointer<const std::byte> tokens,
                                 int tile_bytes, float (&products)[kTiles][4]) {
  gpu::deal_to_sums(has, row, [&](int from, bool takes, int i) {
    const int of = LaneGroup::shuffle(col, from);
    const float all = LaneGroup::shuffle(change, from), own = takes ? all : 0, first = i == 0 ? own : 0,
                second = i == 0 ? 0 : own;
    const gpu::Pointer<const std::byte> at = tokens + gpu::own_pair_place(of);
    const uint32_t select = of % 2 == 0 ? 0x1044 : 0x3244;
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTiles; ++j) {
      const gpu::uint2 both = *gpu::cast<const gpu::uint2>(at + j * tile_bytes);
      const float x[2] = {gpu::float_of(gpu::select_bytes(both.x, select)),
                          gpu::float_of(gpu::select_bytes(both.y, select))};
      ECMV_GPU_UNROLL
      for (int t = 0; t < 2; ++t) {
        products[j][2 * t] += first * x[t];
        products[j][2 * t + 1] += second * x[t];
      }
    }
  });
}
template <typename TileOf, int kTiles>
ECMV_GPU_DEVICE void add_float_patches(const TileOf& tile, gpu::Pointer<const std::byte> tokens, int tile_bytes,
                                       float (&products)[kTiles][4]) {
  tile.deal_float_patches([&](bool has, const FloatPatch& patch, uint32_t sign) {
    const PatchNumbers numbers = patch_numbers<TileOf>(patch, sign, 0);
    add_patches(has, patch.row, patch.col, gpu::float_of(numbers.gains << 16) + gpu::float_of(numbers.loses << 16),
                tokens, tile_bytes, products);
  });
}
// In the numbers that codes are multiplied as.
template <typename TileOf, int kTiles>
ECMV_GPU_DEVICE void add_integer_patches(const TileOf& tile, gpu::Pointer<const std::byte> tokens, int tile_bytes,
                                         float (&products)[kTiles][4]) {
  const float unit = TileOf::Bytes::kFolds ? 0x1p-132f : 0x1p-133f;
  tile.deal_patches([&](bool has, int row, int col, int change) {
    add_patches(has, row, col, static_cast<float>(change) * unit, tokens, tile_bytes, products);
  });
}

template <int kSymbolCols, int kForm, int kSymbolsOfWindow, int kTiles, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void few_tokens(Matrix matrix, Plan plan, FewLayout layout,
                                                                 Hidden hidden, gpu::Bf16Tokens tokens) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow, kEarlyForm<kForm>>;
  constexpr bool kFloats = TileOf::kFloats, kScales = !kFloats || TileOf::kF8;
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group()),
            share = static_cast<int>(gpu::block_index() % layout.shares), first_tile = share * layout.share_tiles,
            tiles_left = matrix.column_tiles - first_tile,
            own_tiles = tiles_left < layout.share_tiles ? tiles_left : layout.share_tiles,
            tile_cols = matrix.streams.tile_segments * TileOf::kSegmentCols;
  const TileCols cols = cols_of_tiles(matrix, first_tile, own_tiles, TileOf::kSegmentCols);
  // A block takes several row groups in turn: table and tokens are there once.
  const int64_t step = gpu::grid_size() / layout.shares * plan.lane_groups;
  int64_t group = gpu::block_index() / layout.shares * plan.lane_groups + lane_group;
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + layout.tokens;
  const gpu::Pointer<uint32_t> largest = gpu::cast<uint32_t>(gpu::shared_memory() + layout.facts);
  const gpu::Pointer<float> totals = gpu::cast<float>(largest + kTiles * kFewTile * kLanes);

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  const auto begin = [&](int number) {
    tile.begin(matrix.streams, group, first_tile + number, matrix.column_tiles, matrix.cols);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries<4>(matrix);
  if (group < matrix.row_groups) begin(0);
  fill_table(matrix, plan, own_entries);
  gpu::wait_for_previous();
  if constexpr (kScales) {
    look_at_tokens(tokens, cols, plan.lane_groups, largest, totals);
    gpu::sync_block();
  }
  const auto shift_of = [&](int token) { return token_shift(largest[token * kLanes]); };
  load_few_tokens<kScales>(tokens, cols, kTiles * kFewTile / 2, layout.pair_bytes, inputs, shift_of);
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  const uint32_t lowest = in_both_halves(matrix.lowest);
  const bool reads = gpu::reads_tokens();
  const gpu::Pointer<const std::byte> own_pair = inputs + lane / 16 * layout.pair_bytes,
                                      own_inputs = own_pair + gpu::own_pair_half() * 16;
  gpu::uint4 operands[4] = {};  // stay zero in lanes that read no tokens
  float products[kTiles][4];

  const auto add_patches = [&](int tile_col) {
    if constexpr (kFloats)
      add_float_patches(tile, own_pair + tile_col * gpu::kOwnTokenBytes, 2 * layout.pair_bytes, products);
    else
      add_integer_patches(tile, own_pair + tile_col * gpu::kOwnTokenBytes, 2 * layout.pair_bytes, products);
  };

  for (; group < matrix.row_groups;) {
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTiles; ++j) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) products[j][i] = 0;
    }
    for (int number = 0; number < own_tiles;) {
      const int tile_col = number * tile_cols;
      add_patches(tile_col);
      const gpu::Pointer<const std::byte> tile_inputs = own_inputs + tile_col * gpu::kOwnTokenBytes;
      gpu::uint2 held{};
      const auto multiply = [&](int segment, int quad, gpu::uint2 four) {
        if (quad % 2 == 0) {
          held = four;
          return;
        }
        const gpu::Pointer<const std::byte> at =
            tile_inputs + (segment * (TileOf::kSegmentCols * gpu::kOwnTokenBytes) + quad / 2 * 32);
        ECMV_GPU_UNROLL
        for (int j = 0; j < kTiles; ++j) {
          gpu::uint4& operand = operands[(quad / 2 * kTiles + j) % 4];
          if (reads) operand = *gpu::cast<const gpu::uint4>(at + 2 * j * layout.pair_bytes);
          gpu::multiply_own_rows(operand, held, four, products[j]);
        }
      };
      if constexpr (kFloats)
        tile.decode(table, [&](int segment, int quad, uint32_t exponents, uint32_t signs) {
          const FourFloats four =
              unscaled_numbers_of<TileOf>(quad, exponents, signs, lowest, exponent_unit<TileOf>(hidden));
          multiply(segment, quad, gpu::uint2{four.first, four.second});
        });
      else
        tile.decode_integers(table, [&](int segment, int quad, uint32_t first, uint32_t second) {
          multiply(segment, quad, gpu::uint2{first, second});
        });
      if (++number < own_tiles) begin(number);
    }
    const int64_t first_row = group * kLanes;
    group += step;
    if (group < matrix.row_groups) begin(0);
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTiles; ++j) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int token = j * kFewTile + gpu::own_sum_number(i);
        const int64_t row = first_row + gpu::own_sum_row(i);
        if (token >= tokens.batch || row >= matrix.rows) continue;
        float product = products[j][i];
        if constexpr (TileOf::kF8) product = scaled(product, kF8Shift - shift_of(token));
        if constexpr (!kFloats) {
          product = scaled(product, 133 - shift_of(token) - (TileOf::Bytes::kFolds ? 1 : 0));
          product +=
              (static_cast<float>(matrix.lowest) - (TileOf::Bytes::kFolds ? 0.5f : 0.0f)) * totals[token * kLanes];
        }
        tokens.y[(share * tokens.batch + token) * tokens.rows + row] = product;
      }
    }
  }
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
