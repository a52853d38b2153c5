// Products with 1 to 4 tokens of bf16 on matrix units, without a detour through shared memory: what a lane decodes of its
// row, four columns at a time, is its part of the operand B [16, 8] as it is. There the four lanes 4 n + t have one
// column n of B and different rows k, but they are different rows of the matrix here. Operand A keeps them apart: it
// [16, 16] has a row for each token and each t, with the token's four numbers where k belongs to t and zeros elsewhere.
// A matrix unit has multiplications to spare; the lanes save one for each element and the sums of four lanes.
//
// int8 elements are made numbers of bf16 by nothing but byte permutations: an integer of 8 bits in the low byte of a bf16
// is that many times 2^-133, also across the border of the normal numbers, and matrix units multiply subnormal numbers
// as any others. Tokens are scaled up by a power of two in return. Folded cells are a sign and a magnitude: of v = w -
// lowest = m or -1 - m the number is 2 v + 1, so that sign and magnitude stay apart; half the sum of the tokens' numbers
// is taken away at the end. Operations for four columns beyond the codes': 1 multiply-add and 1 logic operation (folded
// cells), 2 byte permutations, 1 matrix product, 0.5 loads of x.
#pragma once

#include "backends/gpu/token_units.h"
#include "codecs/quad_huffman/floats_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

inline constexpr int kFewTokens = 4;

// Multiplying by a power of two that one float may not hold.
ECMV_GPU_DEVICE float scaled(float value, int exponent) {
  const int half = exponent / 2;
  return value * gpu::float_of(static_cast<uint32_t>(127 + half) << 23) *
         gpu::float_of(static_cast<uint32_t>(127 + exponent - half) << 23);
}

// Tokens in shared memory, two by two, as a lane reads its part of A by one load: of four columns first two of the one
// token, first two of the other, last two of the one, last two of the other. Row g of A is token 2 (g / 4) for t = g % 4,
// row g + 8 the token after it.
inline constexpr int kQuadBytes = 16;
ECMV_GPU_DEVICE int token_place(int token, int col) {
  return col / 4 * kQuadBytes + token % 2 * 4 + col % 4 / 2 * 8 + col % 2 * 2;
}

// Where things lie in shared memory beside table and rings: pairs of tokens, sums [lane groups, tokens, 32], and of each
// token and lane group the largest number's bits and the sum.
struct FewLayout {
  int tokens, pair_bytes, sums, facts;
};

// x' = x * 2^shift has its largest number at about 2^100.
ECMV_GPU_DEVICE int token_shift(uint32_t largest) { return largest == 0 ? 0 : 227 - static_cast<int>(largest >> 7); }
ECMV_GPU_DEVICE int token_shift(gpu::Pointer<const uint32_t> largest, int token, int lane_groups) {
  uint32_t most = 0;
  for (int i = 0; i < lane_groups; ++i) {
    const uint32_t other = largest[token * kLanes + i];
    most = other > most ? other : most;
  }
  return token_shift(most);
}

// The largest number and the sum of each token, of what this lane group has looked at.
ECMV_GPU_DEVICE void look_at_tokens(const gpu::Bf16Tokens& x, int cols, gpu::Pointer<uint32_t> largest,
                                    gpu::Pointer<float> totals) {
  for (int token = 0; token < x.batch; ++token) {
    uint32_t most = 0;
    float total = 0;
    for (int col = gpu::thread_index() * 8; col < cols; col += gpu::block_size() * 8) {
      const gpu::uint4 words = *gpu::cast<const gpu::uint4>(x.x + (token * x.x_stride + col));
      ECMV_GPU_UNROLL
      for (int i = 0; i < 8; ++i) {
        const uint32_t half = gpu::word_of(words, i / 2) >> (i % 2 * 16) & 0xFFFF;
        most = (half & 0x7FFF) > most ? half & 0x7FFF : most;
        total += gpu::float_of(half << 16);
      }
    }
    most = static_cast<uint32_t>(LaneGroup::reduce_max(static_cast<int32_t>(most)));
    ECMV_GPU_UNROLL
    for (int distance = kLanes / 2; distance > 0; distance /= 2) total += LaneGroup::shuffle_xor(total, distance);
    if (LaneGroup::lane() == 0) {
      largest[token * kLanes + LaneGroup::group()] = most;
      totals[token * kLanes + LaneGroup::group()] = total;
    }
  }
}

// All tokens to shared memory, zeros past the last column and for the second one of a pair that has one; shift_of(token):
// by how many powers of two they are scaled.
template <typename ShiftOf>
ECMV_GPU_DEVICE void load_few_tokens(const gpu::Bf16Tokens& x, int cols, int stored_cols, gpu::Pointer<std::byte> to,
                                     int pair_bytes, ShiftOf shift_of) {
  for (int token = 0; token < (x.batch + 1) / 2 * 2; ++token) {
    const int shift = token < x.batch ? shift_of(token) : 0;
    for (int col = gpu::thread_index() * 8; col < stored_cols; col += gpu::block_size() * 8) {
      const gpu::uint4 words =
          col < cols && token < x.batch ? *gpu::cast<const gpu::uint4>(x.x + (token * x.x_stride + col)) : gpu::uint4{};
      const gpu::Pointer<uint32_t> place = gpu::cast<uint32_t>(to + (token / 2 * pair_bytes + token_place(token, col)));
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        uint32_t word = gpu::word_of(words, i);
        if (shift != 0)
          word = gpu::bits_of(scaled(gpu::float_of(word << 16), shift)) >> 16 |
                 (gpu::bits_of(scaled(gpu::float_of(word & 0xFFFF0000u), shift)) & 0xFFFF0000u);
        place[i * 2] = word;
      }
    }
  }
}

template <int kSymbolCols, int kForm, int kSymbolsOfWindow, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void few_tokens(Matrix matrix, Plan plan, FewLayout layout,
                                                                 Hidden hidden, gpu::Bf16Tokens tokens) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow>;
  constexpr bool kFloats = TileOf::kFloats;
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group()),
            part = lane_group / plan.lane_groups_of_rows, parts = plan.lane_groups / plan.lane_groups_of_rows;
  // A block takes several row groups in turn: tables and tokens are there once.
  const int64_t step = gpu::grid_size() * parts;
  int64_t first_group = gpu::block_index() * parts;
  const gpu::Pointer<float> sums = gpu::cast<float>(gpu::shared_memory() + layout.sums),
                            own_sums = sums + lane_group * (tokens.batch * kLanes);
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + layout.tokens;
  const gpu::Pointer<uint32_t> largest = gpu::cast<uint32_t>(gpu::shared_memory() + layout.facts);
  const gpu::Pointer<float> totals = gpu::cast<float>(largest + tokens.batch * kLanes);
  const int stored_cols = matrix.streams.row_segments * TileOf::kSegmentCols;
  constexpr int kSegmentBytes = TileOf::kSegmentCols / 4 * kQuadBytes;

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  const int first_column = lane_group % plan.lane_groups_of_rows;
  const auto begin = [&](int64_t group, int column) {
    if (group < matrix.row_groups && column < matrix.column_tiles)
      tile.begin(matrix.streams, group, column, matrix.column_tiles, matrix.cols);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries<4>(matrix);
  begin(first_group + part, first_column);
  fill_table(matrix, plan, own_entries);
  for (int token = 0; token < tokens.batch; ++token) own_sums[token * kLanes + lane] = 0;
  gpu::wait_for_previous();
  if constexpr (!kFloats) {
    look_at_tokens(tokens, matrix.cols, largest, totals);
    gpu::sync_block();
  }
  const auto shift_of = [&](int token) { return kFloats ? 0 : token_shift(largest, token, plan.lane_groups); };
  load_few_tokens(tokens, matrix.cols, stored_cols, inputs, layout.pair_bytes, shift_of);
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  const uint32_t lowest = in_both_halves(matrix.lowest);
  const auto input_of = [&](int token, int col) {
    return gpu::float_of(
        uint32_t{*gpu::cast<const uint16_t>(inputs + (token / 2 * layout.pair_bytes + token_place(token, col)))} << 16);
  };
  // Sum i of a lane is C[g + 8 (i / 2), n], of the row of lane 4 n + g % 4.
  const auto token_of = [&](int i) { return lane / 16 * 2 + i / 2; };
  const auto row_of = [&](int i) { return 4 * (lane % 4 * 2 + i % 2) + lane / 4 % 4; };
  const bool is_own = lane / 4 % 4 == lane % 4 && lane / 16 * 2 < tokens.batch;
  gpu::uint4 operand[2] = {};  // stays zero in lanes whose row of A is not theirs
  for (; first_group < matrix.row_groups; first_group += step) {
    const int64_t group = first_group + part;
    float all_products[4] = {};
    int column = group < matrix.row_groups ? first_column : matrix.column_tiles;
    while (column < matrix.column_tiles) {
      float products[4] = {};  // of the tile: shorter sums are nearer to what is right
      if constexpr (kFloats) {
        tile.for_each_float_patch([&](const FloatPatch& patch, uint32_t sign) {
          for (int token = 0; token < tokens.batch; ++token) {
            const float input = input_of(token, tile.first_col() + patch.col);
            gpu::atomic_add(own_sums + (token * kLanes + patch.row),
                            bf16_number(patch.exponent, sign) * input - bf16_number(patch.stand_in, sign) * input);
          }
        });
      } else {
        // In the numbers that codes are multiplied as.
        const float unit = TileOf::Bytes::kFolds ? 0x1p-132f : 0x1p-133f;
        tile.for_each_patch([&](int row, int col, int delta) {
          for (int token = 0; token < tokens.batch; ++token)
            gpu::atomic_add(own_sums + (token * kLanes + row),
                            static_cast<float>(delta) * unit * input_of(token, tile.first_col() + col));
        });
      }
      const gpu::Pointer<const std::byte> own_inputs =
          inputs + (is_own ? lane / 16 * layout.pair_bytes + tile.first_col() / 4 * kQuadBytes : 0);
      const auto load_operand = [&](int segment, int quad) {
        if (is_own)
          operand[quad % 2] = *gpu::cast<const gpu::uint4>(own_inputs + (segment * kSegmentBytes + quad * kQuadBytes));
      };
      if constexpr (kFloats)
        tile.decode(table, [&](int segment, int quad, uint32_t exponents, uint32_t signs) {
          load_operand(segment, quad);
          const FourFloats four = join(exponents, signs, lowest);
          gpu::multiply_tokens(operand[quad % 2], gpu::uint2{four.first, four.second}, products);
        });
      else
        tile.decode_integers(table, [&](int segment, int quad, uint32_t first, uint32_t second) {
          load_operand(segment, quad);
          gpu::multiply_tokens(operand[quad % 2], gpu::uint2{first, second}, products);
        });
      LaneGroup::sync();
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (token_of(i) >= tokens.batch) continue;
        const gpu::Pointer<float> patched = own_sums + (token_of(i) * kLanes + row_of(i));
        all_products[i] += products[i] + *patched;
        *patched = 0;
      }
      LaneGroup::sync();
      column += plan.lane_groups_of_rows;
      begin(group, column);
    }
    begin(group + step, first_column);
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int token = token_of(i);
      if (token >= tokens.batch) continue;
      float product = all_products[i];
      if constexpr (!kFloats) product = scaled(product, 133 - shift_of(token) - (TileOf::Bytes::kFolds ? 1 : 0));
      own_sums[token * kLanes + row_of(i)] = product;
    }
    gpu::sync_block();
    for (int i = gpu::thread_index(); i < tokens.batch * parts * kLanes; i += gpu::block_size()) {
      const int token = i / (parts * kLanes), of_block = i % (parts * kLanes);
      const int64_t row = first_group * kLanes + of_block;
      if (row >= matrix.rows) continue;
      float sum = 0;
      for (int w = 0; w < plan.lane_groups_of_rows; ++w)
        sum += sums[((of_block / kLanes * plan.lane_groups_of_rows + w) * tokens.batch + token) * kLanes +
                    of_block % kLanes];
      if constexpr (!kFloats) {
        float total = 0;
        for (int k = 0; k < plan.lane_groups; ++k) total += totals[token * kLanes + k];
        sum += (static_cast<float>(matrix.lowest) - (TileOf::Bytes::kFolds ? 0.5f : 0.0f)) * total;
      }
      tokens.y[token * tokens.rows + row] = sum;
    }
    // The sums are read before the next row groups' patches are added to them.
    gpu::sync_block();
    for (int token = 0; token < tokens.batch; ++token) own_sums[token * kLanes + lane] = 0;
    LaneGroup::sync();
  }
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
