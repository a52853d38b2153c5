// Tokens of bf16 for lanes that own rows (backends/gpu/products/row_units.h): pairs in shared memory, and what patches
// add.
#pragma once

#include "backends/gpu/products/row_units.h"
#include "codecs/quad_huffman/gpu/tile/floats.h"
#include "codecs/quad_huffman/gpu/tokens/numbers.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Brings the share's columns of all tokens to shared memory, with zeros for tokens and columns that do not exist;
// shift_of(token) is the power of two that scales a token.
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

// Adds a patch to the sums of its row: `change` times the numbers of its column, in all tiles. `tokens` are this lane's
// pair from the tile's first column on; tiles are `tile_bytes` apart.
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
  tile.deal_patches([&](bool has, const PatchWord& patch, uint32_t sign) {
    const PatchNumbers numbers = patch_numbers<TileOf>(patch, sign, 0);
    add_patches(has, patch.row, patch.col, gpu::float_of(numbers.gains << 16) + gpu::float_of(numbers.loses << 16),
                tokens, tile_bytes, products);
  });
}
}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
