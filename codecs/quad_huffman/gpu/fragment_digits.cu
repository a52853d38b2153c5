// Products of fragments of int8 elements with up to 16 tokens of bf16, as bytes times digits
// (backends/gpu/products/digit_units.h). Two decoded units, 16 columns each, are a lane's part of operand A [16, 32] of
// bytes. Numbers of bf16 would take 8 more instructions for each eight elements, and two products instead of one. Four
// lane groups multiply together, as with 16 tokens in fragments.cu, and blocks share rows and columns as there.
#include <cmath>
#include <cstdlib>

#include "backends/gpu/products/digit_units.h"
#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/tokens/fragment_patches.h"
#include "codecs/quad_huffman/gpu/tokens/fragment_plan.h"
#include "codecs/quad_huffman/gpu/tokens/numbers.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// Writes the share's columns of all tokens as digits from `to` on, zeros for tokens and columns that do not exist;
// `cols` counts the matrix's columns. A token's largest number, which its digits depend on, and its sum come first,
// where look_at_tokens() puts them. A thread has eight columns of one token at a time and keeps the first kKept of them
// for the digits: all of them with 2048 columns and 24 lane groups. (H200, 16 tokens, T elements/s at 16384 x 16384 and
// 8192 x 8192: 4.18 and 2.66; with tokens read twice 4.09 and 2.54.)
ECMV_GPU_DEVICE void make_token_digits(const gpu::Bf16Tokens& x, const TileCols& cols, int lane_groups,
                                       gpu::Pointer<uint32_t> largest, gpu::Pointer<float> totals,
                                       gpu::Pointer<std::byte> to) {
  constexpr int kKept = 6, kTokens = gpu::kDigitTokens;
  static_assert(kLanes % kTokens == 0);
  const int token = gpu::thread_index() % kTokens, first = gpu::thread_index() / kTokens * 8,
            step = gpu::block_size() / kTokens * 8;
  const auto numbers_at = [&](int col) {
    return col < cols.stored ? eight_numbers(x, token, cols, col) : gpu::uint4{};
  };
  gpu::uint4 kept[kKept];
  ECMV_GPU_UNROLL
  for (int k = 0; k < kKept; ++k) kept[k] = numbers_at(first + k * step);
  TokenFacts facts;
  ECMV_GPU_UNROLL
  for (int k = 0; k < kKept; ++k) facts.add(kept[k]);
  ECMV_GPU_NO_UNROLL
  for (int col = first + kKept * step; col < cols.stored; col += step) facts.add(numbers_at(col));
  ECMV_GPU_UNROLL
  for (int distance = kTokens; distance < kLanes; distance *= 2) {
    const uint32_t most = LaneGroup::shuffle_xor(facts.most, distance);
    facts.most = most > facts.most ? most : facts.most;
    facts.total += LaneGroup::shuffle_xor(facts.total, distance);
  }
  if (LaneGroup::lane() < kTokens) {
    largest[token * kLanes + LaneGroup::group()] = facts.most;
    totals[token * kLanes + LaneGroup::group()] = facts.total;
  }
  gpu::sync_block();
  join_token_facts(x.batch, lane_groups, lane_groups, largest, totals);
  gpu::sync_block();
  const gpu::TokenDigits digits(token < x.batch ? gpu::largest_exponent(largest[token * kLanes]) : 1);
  const auto put = [&](int col, gpu::uint4 numbers) {
    if (col >= cols.stored) return;
    uint32_t words[2][gpu::kTokenDigits];
    ECMV_GPU_UNROLL
    for (int half = 0; half < 2; ++half)
      digits.words_of({gpu::word_of(numbers, half * 2), gpu::word_of(numbers, half * 2 + 1)}, words[half]);
    ECMV_GPU_UNROLL
    for (int d = 0; d < gpu::kTokenDigits; ++d)
      *gpu::cast<gpu::uint2>(to +
                             (gpu::digit_byte(col) + gpu::digit_row_place(d * kTokens + token, gpu::digit_part(col)))) =
          gpu::uint2{words[0][d], words[1][d]};
  };
  ECMV_GPU_UNROLL
  for (int k = 0; k < kKept; ++k) put(first + k * step, kept[k]);
  ECMV_GPU_NO_UNROLL
  for (int col = first + kKept * step; col < cols.stored; col += step) put(col, numbers_at(col));
}

// The row groups of a block. Its lane groups take them in turn, four together, and all blocks but the last have equally
// many. (Blocks that take rounds of all their lane groups in turn would end a round apart: 16 tokens, 64 row groups a
// block, 24 lane groups.)
struct BlockRows {
  int first, end;
};
ECMV_GPU_DEVICE BlockRows rows_of_block(const Matrix& matrix, int shares) {
  const int blocks = static_cast<int>(gpu::grid_size()) / shares, all = static_cast<int>(matrix.row_groups),
            each = (all + blocks - 1) / blocks,
            whole = (each + gpu::kWarpgroup - 1) / gpu::kWarpgroup * gpu::kWarpgroup,
            first = static_cast<int>(gpu::block_index()) / shares * whole;
  return {first, first + whole < all ? first + whole : all};
}

// Adds the changes that a tile's patches make; its digits begin at `digits`. A patch is a column of A, 16 at once.
template <typename TileOf>
ECMV_GPU_DEVICE void multiply_digit_patches(const TileOf& tile, gpu::Pointer<const std::byte> digits,
                                            int32_t (&sums)[gpu::kDigitTiles][4]) {
  constexpr int kAtOnce = 16, kOwn = 4;
  constexpr uint32_t kCell = 1u << TileOf::Bytes::kCellBits, kTakes = 1u << kUnitRowBits;
  const int lane = LaneGroup::lane(), t = lane % 4;
  const uint32_t above = static_cast<uint32_t>(lane / 4), below = above + 8;
  const gpu::Pointer<const std::byte> own = digits + lane / 4 * gpu::kDigitRowBytes;
  tile.deal_patches([&](bool has, int row, int col, int change) {
    const int all = col / kFragmentCols * kUnitCols + row % 4 * 4 + col % 4;
    const uint32_t place = static_cast<uint32_t>(gpu::digit_byte(all) << 3 | gpu::digit_part(all)),
                   facts = (has ? place : 0) << (kUnitRowBits + 1) | (change < 0 ? kTakes : 0) |
                           (has ? unit_row(row, col) : kNoUnitRow);
    const int count = gpu::popcount(LaneGroup::ballot(has));
    ECMV_GPU_NO_UNROLL
    for (int first = 0; first < count; first += kAtOnce) {
      uint32_t a[2] = {};
      int at[kOwn];
      ECMV_GPU_UNROLL
      for (int k = 0; k < kOwn; ++k) {
        const uint32_t fact = LaneGroup::shuffle(facts, first + kOwn * t + k), of_row = fact & (kTakes - 1),
                       cells = ((fact & kTakes) != 0 ? 256 - kCell : kCell) << (8 * k);
        a[0] |= of_row == above ? cells : 0;
        a[1] |= of_row == below ? cells : 0;
        const uint32_t part = (fact >> (kUnitRowBits + 1) & 7) ^ above;
        at[k] = static_cast<int>((fact >> (kUnitRowBits + 4)) + part * 16);
      }
      ECMV_GPU_UNROLL
      for (int j = 0; j < gpu::kDigitTiles; ++j) {
        uint32_t b = 0;
        ECMV_GPU_UNROLL
        for (int k = 0; k < kOwn; ++k)
          b |= static_cast<uint32_t>(*gpu::cast<const uint8_t>(own + (at[k] + j * (8 * gpu::kDigitRowBytes))))
               << (8 * k);
        gpu::multiply_bytes(a[0], a[1], b, sums[j]);
      }
    }
  });
}

template <int kForm>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(24 * kLanes, 1) void fragment_digits(Matrix matrix, BlockPlan plan,
                                                                     FragmentsLayout layout, Hidden hidden,
                                                                     int all_cols, gpu::Bf16Tokens tokens) {
  // 80 registers are enough for a ring that is not lean, and int8 elements are faster with it (H200, 16384 x 16384, 16
  // tokens, two runs: 4.12 and 4.07 T elements/s, lean 4.05 and 4.02).
  using TileOf = TileLanes<8, kForm, 2, kEarlyForm<kForm>>;
  static_assert(TileOf::Bytes::kFolds && !TileOf::Bytes::kDoubled && !TileOf::kFloats);
  constexpr int kTiles = gpu::kDigitTokens / 8, kPairs = TileOf::kSegmentCols / (2 * kFragmentCols);
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group()),
            share = static_cast<int>(gpu::block_index() % layout.shares), first_tile = share * layout.share_tiles,
            tiles_left = matrix.column_tiles - first_tile,
            own_tiles = tiles_left < layout.share_tiles ? tiles_left : layout.share_tiles;
  const TileCols cols = matrix_cols(cols_of_tiles(matrix, first_tile, own_tiles, TileOf::kSegmentCols), all_cols);
  const BlockRows rows = rows_of_block(matrix, layout.shares);
  int group = rows.first + lane_group;
  const gpu::Pointer<std::byte> digits = gpu::first_block(gpu::shared_memory() + layout.tokens);
  const gpu::Pointer<uint32_t> largest = gpu::cast<uint32_t>(gpu::shared_memory() + layout.facts);
  const gpu::Pointer<float> totals = gpu::cast<float>(largest + gpu::kDigitTokens * kLanes);

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  const auto goes_on = [&] { return group - lane_group % gpu::kWarpgroup < rows.end; };
  const auto begin = [&](int number, uint32_t after) {
    const int of = group < rows.end ? group : rows.end - 1;
    tile.template begin<true>(matrix.streams, of, first_tile + number, matrix.column_tiles, matrix.cols, after);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries(matrix);
  if (goes_on()) begin(0, own_entries.all());
  fill_table(matrix, plan, own_entries);
  gpu::wait_for_previous();
  make_token_digits(tokens, cols, plan.lane_groups, largest, totals, digits);
  gpu::order_before_units();
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  int32_t sums[gpu::kDigitTiles][4] = {};
  int number = 0;
  while (goes_on()) {
    const gpu::Pointer<const std::byte> tile_digits =
        digits + (2 * tile.first_col() - cols.first) / gpu::kDigitBlockCols * gpu::kDigitBlockBytes;
    const gpu::SharedBlocks blocks(tile_digits);
    multiply_digit_patches(tile, tile_digits, sums);
    tile.begin_raw();
    // A pair of units is multiplied while the next one is decoded.
    gpu::uint4 operands[2] = {};
    uint32_t words[3];
    tile.decode(table, [&](int segment, int quad, uint32_t bytes) {
      if (quad % 4 < 3) {
        words[quad % 4] = bytes;
        return;
      }
      const int pair = quad / 4;
      operands[pair % 2] = gpu::uint4{words[0], words[1], words[2], bytes};
      if (pair > 0) gpu::wait_for_products();
      gpu::begin_products();
      gpu::multiply_digits(operands[pair % 2], blocks,
                           (segment * kPairs + pair) / gpu::kDigitUnitsOfBlock * gpu::kDigitBlockBytes,
                           pair % gpu::kDigitUnitsOfBlock, sums);
      gpu::commit_products();
      if (pair == kPairs - 1) gpu::wait_for_products();
    });
    const int64_t first_row = int64_t{group} * kUnitRows;
    const bool ends = ++number == own_tiles;
    if (ends) number = 0, group += plan.lane_groups;
    if (goes_on()) begin(number, 0);
    if (!ends) continue;
    ECMV_GPU_UNROLL
    for (int k = 0; k < 2 * kTiles; ++k) {
      const int token = k / 2 * kFragmentTile + lane % 4 * 2 + k % 2;
      if (token >= tokens.batch) continue;
      const int unit = gpu::token_digits_unit(gpu::largest_exponent(largest[token * kLanes]));
      const float of_lowest = static_cast<float>(matrix.lowest) * totals[token * kLanes];
      const gpu::Pointer<float> y = tokens.y + (share * tokens.batch + token) * tokens.rows;
      ECMV_GPU_UNROLL
      for (int below = 0; below < 2; ++below)
        if (const int64_t row = first_row + lane / 4 + below * 8; row < matrix.rows)
          y[row] = scaled(gpu::number_of_digits(sums, k / 2, k % 2 + 2 * below), unit) + of_lowest;
    }
    ECMV_GPU_UNROLL
    for (int j = 0; j < gpu::kDigitTiles; ++j) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) sums[j][i] = 0;
    }
  }
}

// The fastest for int8 elements with 2 to 16 tokens (2026-11-26-h200/batch_int8, 2026-11-26-h100/batch_int8).
constexpr FragmentPolicy kPolicies[] = {
    {{{"digits24"}, 24, 32, 1}, gpu::kDigitTokens, gpu::kDigitColBytes, true, true, 21, 21}};

// Symbols of four are faster as numbers of bf16 (notes/fragments.md).
FragmentsKernel kernel_of(const Header& code) {
  return for_code<has_no_short_windows>(code, [](auto symbol_cols, auto form, auto) -> FragmentsKernel {
    constexpr int kForm = decltype(form)::value;
    if constexpr (decltype(symbol_cols)::value == 8 && is_folded(kForm) && raw_bits_of(kForm) <= 4)
      return fragment_digits<kForm>;
    return nullptr;
  });
}

FragmentsPlan plan_tokens(const backends::Policy& named, const backends::CompressedView& view,
                          const backends::DeviceInfo& device, int) {
  const Header code = header_of(view);
  return plan_fragments(named.as<FragmentPolicy>(), code, stored_shape(view), device, kernel_of(code));
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  return refuses_fragments(
      view, device, named, plan_tokens,
      "The kernel is for int8 elements in symbols of eight and folded cells, with 2 to 4 raw bits.");
}

// A token loses 2^-22 of its largest number a column, times an element less `lowest`, patches included. That is below n
// 2^-22 of the sum of the token's numbers times the element; the bound has n 2^-24.
backends::BoundKernel bind(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  return bind_fragments(named, layers, batch, place, plan_tokens, gpu::kDigitTokens,
                        4.0 * (128 + std::abs(header_of(*layers[0].matrix).lowest)));
}

}  // namespace

backends::Kernel digits() {
  return {.op = backends::Op::matmul,
          .variant = "fragments",
          .policies = kPolicies,
          .activations = backends::Activations::bf16,
          .refuses = refuses,
          .bind = bind};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
