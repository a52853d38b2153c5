// Products of bf16 elements with one or two tokens of bf16: as the product with a token of float32 (floats_gpu.h), but by matrix
// units, of which what a lane decodes is an operand as it is (gpu/row_units.h). Of the 17 operations for four columns
// that elements, numbers, products and x take there, 9 are left: 8 join elements, 0.5 matrix products, 0.5 loads of x.
#pragma once

#include "codecs/quad_huffman/few_tokens_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Tokens at a time: what one pair of shared memory holds.
inline constexpr int kRingTokens = 2;

// plan.sums: [lane groups, kRingTokens, 32]; plan.inputs: the pair of tokens, whole.
template <int kSymbolCols, int kForm, int kSymbolsOfWindow, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void ring_tokens(Matrix matrix, Plan plan, Hidden hidden,
                                                                  gpu::Bf16Tokens tokens) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow>;
  constexpr int kGroupSums = kRingTokens * kLanes;
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group()),
            part = lane_group / plan.lane_groups_of_rows, parts = plan.lane_groups / plan.lane_groups_of_rows;
  const int64_t group = gpu::block_index() * parts + part;
  const gpu::Pointer<float> sums = gpu::cast<float>(gpu::shared_memory() + plan.sums),
                            own_sums = sums + lane_group * kGroupSums;
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + plan.inputs;

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  int column = group < matrix.row_groups ? lane_group % plan.lane_groups_of_rows : matrix.column_tiles;
  const auto begin = [&] {
    if (column < matrix.column_tiles) tile.begin(matrix.streams, group, column, matrix.column_tiles, matrix.cols);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries<4>(matrix);
  begin();
  fill_table(matrix, plan, own_entries);
  gpu::wait_for_previous();
  load_few_tokens<false>(tokens, {0, matrix.cols, matrix.streams.row_segments * TileOf::kSegmentCols}, 1, 0, inputs,
                         [](int) { return 0; });
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  const uint32_t lowest = in_both_halves(matrix.lowest);
  // Lanes from 16 on have the sums of a second pair, which is not there.
  const bool has_sums = lane < 16, reads = has_sums && gpu::reads_tokens();
  gpu::uint4 operand{};  // stays zero in lanes that read no tokens
  float products[1][4] = {};
  while (column < matrix.column_tiles) {
    const gpu::Pointer<const std::byte> pair = inputs + tile.first_col() * gpu::kOwnTokenBytes,
                                        own_inputs = pair + gpu::own_pair_half() * 16;
    add_float_patches(tile, pair, 0, products);
    gpu::uint2 held{};
    tile.decode(table, [&](int segment, int quad, uint32_t exponents, uint32_t signs) {
      const FourFloats four = join(exponents, signs, lowest, hidden.exponent_unit);
      if (quad % 2 == 0) {
        held = {four.first, four.second};
        return;
      }
      if (reads)
        operand = *gpu::cast<const gpu::uint4>(
            own_inputs + (segment * (TileOf::kSegmentCols * gpu::kOwnTokenBytes) + quad / 2 * 32));
      gpu::multiply_own_rows(operand, held, {four.first, four.second}, products[0]);
    });
    column += plan.lane_groups_of_rows;
    begin();
  }
  LaneGroup::sync();
  ECMV_GPU_UNROLL
  for (int i = 0; i < 4; ++i)
    if (has_sums) own_sums[i / 2 * kLanes + gpu::own_sum_row(i)] = products[0][i];
  gpu::sync_block();
  for (int i = gpu::thread_index(); i < parts * kGroupSums; i += gpu::block_size()) {
    const int token = i / kLanes % kRingTokens, of_part = i / kGroupSums;
    const int64_t row = (gpu::block_index() * parts + of_part) * kLanes + i % kLanes;
    if (row >= matrix.rows || token >= tokens.batch) continue;
    float sum = 0;
    for (int w = 0; w < plan.lane_groups_of_rows; ++w)
      sum += sums[(of_part * plan.lane_groups_of_rows + w) * kGroupSums + i % kGroupSums];
    tokens.y[token * tokens.rows + row] = sum;
  }
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
