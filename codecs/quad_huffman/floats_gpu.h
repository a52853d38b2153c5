// Products of bf16 and f8 matrices: exponents come from the tiles' codes as elements of int8 matrices do, sign
// and mantissa from their raw bits. Two elements are made at once, as halves of a word: bytes of exponents spread to
// halves, one multiply-add that shifts them and adds the lowest, bytes of sign and mantissa doubled to halves, one
// selection of bits. Operations for four columns beyond the look-ups: 2 for the exponents' lowest bits (K = 4), 8 for
// the halves, 4 to make numbers of them, 4 multiply-adds, 1 load of x.
//
// Of f8 the raw words' halves have sign and mantissa in place once they are rotated (format.h), so that no bytes are doubled.
// What comes out has f8's exponent: as a bf16 it is 2^-120 times the number, subnormal ones included. One multiplication of
// each two elements makes it the number, or tokens are scaled up in return. Operations: 1.5 rotations, 6 for the halves, 2
// multiplications. What f8 calls NaN becomes 480.
#pragma once

#include "backends/gpu/dense_matmul.h"
#include "backends/gpu/token_units.h"
#include "codecs/quad_huffman/block_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Four bf16 elements, two a word.
struct FourFloats {
  uint32_t first, second;
};
// `lowest` in both halves, where exponents are; `unit`: Cells::kExponentUnit, which the compiler may not know.
ECMV_GPU_DEVICE FourFloats join(uint32_t exponents, uint32_t signs, uint32_t lowest, uint32_t unit) {
  constexpr uint32_t kExponent = 0x7F807F80u;
  return {gpu::select_bits(kExponent, gpu::byte_permute(exponents, 0, 0x4140) * unit + lowest,
                           gpu::byte_permute(signs, 0, 0x1100)),
          gpu::select_bits(kExponent, gpu::byte_permute(exponents, 0, 0x4342) * unit + lowest,
                           gpu::byte_permute(signs, 0, 0x3322))};
}
// The same of f8, numbers less a factor of 2^kF8Shift; `quad`: of the segment, a constant once the loops around are unrolled;
// `word`: the raw word of this quad and its neighbour.
inline constexpr int kF8Shift = 120;
ECMV_GPU_DEVICE FourFloats join_f8(int quad, uint32_t exponents, uint32_t word, uint32_t lowest, uint32_t unit) {
  constexpr uint32_t kExponent = ~gpu::kF8Raw;
  const auto rotated = [&](int bits) { return gpu::funnel_shift_right(word, word, static_cast<uint32_t>(bits)); };
  const int bits = quad % 2 * 8;
  return {gpu::select_bits(kExponent, gpu::byte_permute(exponents, 0, 0x4140) * unit + lowest,
                           bits == 0 ? word : rotated(bits)),
          gpu::select_bits(kExponent, gpu::byte_permute(exponents, 0, 0x4342) * unit + lowest, rotated(bits + 4))};
}
// Four elements of what TileOf's decode() gives, as numbers of bf16 to be multiplied with numbers scaled up by
// 2^unscaled<TileOf>().
template <typename TileOf>
constexpr int unscaled() {
  return TileOf::kF8 ? kF8Shift : 0;
}
template <typename TileOf>
ECMV_GPU_DEVICE FourFloats unscaled_numbers_of(int quad, uint32_t exponents, uint32_t signs, uint32_t lowest,
                                               uint32_t unit) {
  if constexpr (TileOf::kF8) return join_f8(quad, exponents, signs, lowest, unit);
  return join(exponents, signs, lowest, unit);
}
// The same as what they are.
template <typename TileOf>
ECMV_GPU_DEVICE FourFloats numbers_of(int quad, uint32_t exponents, uint32_t signs, uint32_t lowest, uint32_t unit) {
  const FourFloats four = unscaled_numbers_of<TileOf>(quad, exponents, signs, lowest, unit);
  if constexpr (TileOf::kF8) return {gpu::scaled_f8(four.first), gpu::scaled_f8(four.second)};
  return four;
}
template <typename TileOf>
ECMV_GPU_DEVICE uint32_t exponent_unit(const Hidden& hidden) {
  return hidden.exponent_unit * (TileOf::Bytes::kExponentUnit / Hidden{}.exponent_unit);
}
ECMV_GPU_DEVICE uint32_t in_both_halves(int lowest) {
  return static_cast<uint32_t>(lowest) << 7 | static_cast<uint32_t>(lowest) << 23;
}

// The same of an element with that exponent, as a bf16; `sign`: what for_each_float_patch() gives with it.
template <typename TileOf>
ECMV_GPU_DEVICE uint32_t unscaled_bits_of(uint32_t exponent, uint32_t sign) {
  const uint32_t mantissa = TileOf::kF8 ? (sign & 7) << 4 : sign & 0x7F;
  return (sign & 0x80) << 8 | exponent << 7 | mantissa;
}
template <typename TileOf>
ECMV_GPU_DEVICE float unscaled_number_of(uint32_t exponent, uint32_t sign) {
  return gpu::float_of(unscaled_bits_of<TileOf>(exponent, sign) << 16);
}
template <typename TileOf>
ECMV_GPU_DEVICE float number_of(uint32_t exponent, uint32_t sign) {
  return unscaled_number_of<TileOf>(exponent, sign) * (TileOf::kF8 ? 0x1p120f : 1.0f);
}

// One token's x to shared memory, zeros past the last column, where there are codes as well.
ECMV_GPU_DEVICE void load_token(gpu::Pointer<const float> x, int cols, int stored_cols, gpu::Pointer<float> to) {
  // Tokens have zeros past their last column, but not as many as there are columns of a segment.
  for (int col = gpu::thread_index() * 4; col < stored_cols; col += gpu::block_size() * 4)
    *gpu::cast<gpu::uint4>(to + col) = col < cols ? *gpu::cast<const gpu::uint4>(x + col) : gpu::uint4{};
}

// The product of this lane's row of the tile with x; what patches change is added to the sums of their rows.
template <typename TileOf>
ECMV_GPU_DEVICE float multiply_floats(TileOf& tile, const Table& table, uint32_t lowest, uint32_t unit,
                                      gpu::Pointer<const float> inputs, gpu::Pointer<float> sums) {
  tile.for_each_float_patch([&](const FloatPatch& patch, uint32_t sign) {
    const float input = inputs[tile.first_col() + patch.col];
    gpu::atomic_add(sums + patch.row,
                    number_of<TileOf>(patch.exponent, sign) * input - number_of<TileOf>(patch.stand_in, sign) * input);
  });
  const gpu::Pointer<const gpu::uint4> own_inputs = gpu::cast<const gpu::uint4>(inputs + tile.first_col());
  float products[2] = {};
  tile.decode(table, [&](int segment, int quad, uint32_t exponents, uint32_t signs) {
    const gpu::uint4 input = own_inputs[segment * (TileOf::kSegmentCols / 4) + quad];
    const FourFloats four = numbers_of<TileOf>(quad, exponents, signs, lowest, unit);
    products[0] += gpu::float_of(four.first << 16) * gpu::float_of(input.x);
    products[1] += gpu::float_of(four.first & 0xFFFF0000u) * gpu::float_of(input.y);
    products[0] += gpu::float_of(four.second << 16) * gpu::float_of(input.z);
    products[1] += gpu::float_of(four.second & 0xFFFF0000u) * gpu::float_of(input.w);
  });
  return products[0] + products[1];
}

// One token of float32. Lane groups share rows as in the products of int8;
// each has sums of its own, which are added in order at the end.
template <int kSymbolCols, int kForm, int kSymbolsOfWindow, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void matmul(Matrix matrix, Plan plan, Hidden hidden,
                                                             gpu::TokenView tokens, int token) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow>;
  const int lane_group = LaneGroup::uniform(LaneGroup::group()), part = lane_group / plan.lane_groups_of_rows,
            parts = plan.lane_groups / plan.lane_groups_of_rows;
  const int64_t group = gpu::block_index() * parts + part;
  const gpu::Pointer<float> sums = gpu::cast<float>(gpu::shared_memory() + plan.sums),
                            inputs = gpu::cast<float>(gpu::shared_memory() + plan.inputs);
  const gpu::Pointer<float> own_sums = sums + lane_group * kLanes;

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  int column = group < matrix.row_groups ? lane_group % plan.lane_groups_of_rows : matrix.column_tiles;
  gpu::let_next_begin();
  const auto own_entries = load_own_entries<4>(matrix);
  if (column < matrix.column_tiles) tile.begin(matrix.streams, group, column, matrix.column_tiles, matrix.cols);
  fill_table(matrix, plan, own_entries);
  own_sums[LaneGroup::lane()] = 0;
  gpu::sync_block();
  gpu::wait_for_previous();
  const int stored_cols = matrix.streams.row_segments * TileOf::kSegmentCols;
  load_token(tokens.x + token * tokens.x_stride, matrix.cols, stored_cols, inputs);
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  const uint32_t lowest = in_both_halves(matrix.lowest);
  float product = 0;
  while (column < matrix.column_tiles) {
    product += multiply_floats<TileOf>(tile, table, lowest, exponent_unit<TileOf>(hidden), inputs, own_sums);
    column += plan.lane_groups_of_rows;
    if (column < matrix.column_tiles) tile.begin(matrix.streams, group, column, matrix.column_tiles, matrix.cols);
  }
  LaneGroup::sync();
  own_sums[LaneGroup::lane()] += product;
  gpu::sync_block();
  for (int i = gpu::thread_index(); i < parts * kLanes; i += gpu::block_size()) {
    const int64_t row = gpu::block_index() * parts * kLanes + i;
    if (row >= matrix.rows) continue;
    float sum = 0;
    for (int w = 0; w < plan.lane_groups_of_rows; ++w)
      sum += sums[(i / kLanes * plan.lane_groups_of_rows + w) * kLanes + i % kLanes];
    tokens.store(row, token, sum);
  }
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
