// Adds the changes of patches in products of fragments by a matrix product of their own. Each patch is a column of
// operand A, in the row of its element, and meets the tokens' numbers of that element's column. So the sums come to the
// lanes that hold them, and nobody waits for a turn. (H200, 16384 x 16384 of bf16, 16 tokens: T = 11, with more
// patches, took 8 us longer than T = 12 when they were dealt out one by one, and 5 us as a product.)
#pragma once

#include "backends/gpu/products/warpgroup_units.h"
#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/gpu/tile/floats.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Tokens of a tile.
inline constexpr int kFragmentTile = 8;

// Which of a unit's eight pairs has the numbers for column `col` of stored row `row`.
ECMV_GPU_DEVICE int fragment_pair(int row, int col) { return col / 2 % 2 * 4 + row % 4; }

// Bytes of a unit of 16 columns of the matrix in shared memory: for each lane four columns of its token.
inline constexpr int kLaneTokenBytes = 8, kUnitTokenBytes = kLanes * kLaneTokenBytes;

// Numbers of token lane / 4 in shared memory, in the order of units, from a tile's first column on.
struct UnitNumbers {
  gpu::Pointer<const std::byte> own;
  explicit ECMV_GPU_DEVICE UnitNumbers(gpu::Pointer<const std::byte> tokens)
      : own(tokens + LaneGroup::lane() / 4 * (4 * kLaneTokenBytes)) {}
  // The place of column `col` of stored row `row` of the tile.
  ECMV_GPU_DEVICE static uint32_t place(int row, int col) {
    return static_cast<uint32_t>(col / kFragmentCols * kUnitTokenBytes + row % 4 * kLaneTokenBytes + col % 4 * 2);
  }
  ECMV_GPU_DEVICE uint32_t number(uint32_t place, int /* the first tile */) const {
    return *gpu::cast<const uint16_t>(own + static_cast<int>(place));
  }
};

// The same where four lane groups multiply together, with tokens in blocks of 64 columns
// (backends/gpu/products/warpgroup_units.h). A place is a multiple of 8 plus the number of its 16 bytes.
template <int kTiles>
struct BlockNumbers {
  static constexpr int kBlockBytes = kFragmentTile * kTiles * gpu::kBlockTokenBytes;
  gpu::Pointer<const std::byte> own;
  explicit ECMV_GPU_DEVICE BlockNumbers(gpu::Pointer<const std::byte> tokens)
      : own(tokens + LaneGroup::lane() / 4 * gpu::kBlockTokenBytes) {}
  ECMV_GPU_DEVICE static uint32_t place(int row, int col) {
    const int unit = col / kFragmentCols, pair = unit % gpu::kUnitsOfBlock * 8 + fragment_pair(row, col);
    return static_cast<uint32_t>((unit / gpu::kUnitsOfBlock * kBlockBytes + pair % 4 * 4 + col % 2 * 2) << 3 |
                                 pair / 4);
  }
  ECMV_GPU_DEVICE uint32_t number(uint32_t place, int j) const {
    const uint32_t part = (place & 7) ^ static_cast<uint32_t>(LaneGroup::lane() / 4);
    return *gpu::cast<const uint16_t>(own + static_cast<int>((place >> 3) + part * 16) +
                                      j * (kFragmentTile * gpu::kBlockTokenBytes));
  }
};

// The row of a unit that has an element of a stored row and column, and a row that no unit has.
ECMV_GPU_DEVICE uint32_t unit_row(int row, int col) { return static_cast<uint32_t>(row / 4 + col / 4 % 2 * 8); }
inline constexpr uint32_t kNoUnitRow = kUnitRows, kUnitRowBits = 5;

// Operand A of eight patches. This lane has columns t and t + 4, two words each: facts, whose lowest bits are the row
// of the unit, and what the patches gain and lose.
ECMV_GPU_DEVICE gpu::uint4 patch_operand(const uint32_t (&facts)[2], const uint32_t (&words)[2]) {
  const uint32_t above = static_cast<uint32_t>(LaneGroup::lane() / 4), below = above + 8;
  const auto in_row = [&](int k, uint32_t row) { return (facts[k] & (2 * kUnitRows - 1)) == row ? words[k] : 0; };
  return {in_row(0, above), in_row(0, below), in_row(1, above), in_row(1, below)};
}

// Adds the changes that the patches of some lanes make: a patch is two columns of A.
template <typename Numbers, int kTiles>
ECMV_GPU_DEVICE void multiply_float_patches(bool has, int row, int col, const PatchNumbers& changes,
                                            const Numbers& numbers, float (&sums)[kTiles][4]) {
  constexpr int kAtOnce = 8;
  const int t = LaneGroup::lane() % 4;
  const uint32_t place = has ? Numbers::place(row, col) : 0,
                 facts = place << kUnitRowBits | (has ? unit_row(row, col) : kNoUnitRow), numbers_of = changes.both();
  const int count = gpu::popcount(LaneGroup::ballot(has));
  ECMV_GPU_NO_UNROLL
  for (int first = 0; first < count; first += kAtOnce) {
    uint32_t fact[2], words[2];
    ECMV_GPU_UNROLL
    for (int k = 0; k < 2; ++k) {
      fact[k] = LaneGroup::shuffle(facts, first + 4 * k + t);
      words[k] = LaneGroup::shuffle(numbers_of, first + 4 * k + t);
    }
    const gpu::uint4 a = patch_operand(fact, words);
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTiles; ++j) {
      const auto both = [&](int k) { return numbers.number(fact[k] >> kUnitRowBits, j) * 0x10001u; };
      gpu::multiply_tokens(a, gpu::uint2{both(0), both(1)}, sums[j]);
    }
  }
}

// Adds the changes that the patches of some lanes make, `cell` or its negative, a number of bf16 without sign: a patch
// is a column of A.
template <typename Numbers, int kTiles>
ECMV_GPU_DEVICE void multiply_integer_patches(bool has, int row, int col, bool takes, uint32_t cell,
                                              const Numbers& numbers, float (&sums)[kTiles][4]) {
  constexpr int kAtOnce = 16;
  const int lane = LaneGroup::lane(), t = lane % 4;
  const uint32_t above = static_cast<uint32_t>(lane / 4), below = above + 8, place = has ? Numbers::place(row, col) : 0,
                 facts = place << (kUnitRowBits + 1) | (takes ? 1u << kUnitRowBits : 0) |
                         (has ? unit_row(row, col) : kNoUnitRow);
  const int count = gpu::popcount(LaneGroup::ballot(has));
  ECMV_GPU_NO_UNROLL
  for (int first = 0; first < count; first += kAtOnce) {
    uint32_t fact[4], change[4];  // patches 2 t, 2 t + 1, 8 + 2 t and 9 + 2 t
    ECMV_GPU_UNROLL
    for (int k = 0; k < 4; ++k) {
      fact[k] = LaneGroup::shuffle(facts, first + k / 2 * 8 + 2 * t + k % 2);
      change[k] = cell | (fact[k] << (15 - kUnitRowBits) & 0x8000);
    }
    const auto in_row = [&](int k, uint32_t of) { return (fact[k] & (2 * kUnitRows - 1)) == of ? change[k] : 0; };
    const auto pair = [&](int k, uint32_t of) { return in_row(k, of) | in_row(k + 1, of) << 16; };
    const gpu::uint4 a{pair(0, above), pair(0, below), pair(2, above), pair(2, below)};
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTiles; ++j) {
      const auto two = [&](int k) {
        return numbers.number(fact[k] >> (kUnitRowBits + 1), j) | numbers.number(fact[k + 1] >> (kUnitRowBits + 1), j)
                                                                      << 16;
      };
      gpu::multiply_tokens(a, gpu::uint2{two(0), two(2)}, sums[j]);
    }
  }
}

// Adds all patches of a tile; int8 patches as the numbers that codes are multiplied as (Cells::integers).
template <typename TileOf, typename Numbers, int kTiles>
ECMV_GPU_DEVICE void multiply_patches(const TileOf& tile, int power, const Numbers& numbers, float (&sums)[kTiles][4]) {
  if constexpr (TileOf::kFloats) {
    tile.deal_patches([&](bool has, const PatchWord& patch, uint32_t sign) {
      multiply_float_patches(has, patch.row, patch.col, patch_numbers<TileOf>(patch, sign, power), numbers, sums);
    });
  } else {
    constexpr uint32_t kCell = 2u << TileOf::Bytes::kCellBits;
    tile.deal_patches([&](bool has, int row, int col, int change) {
      multiply_integer_patches(has, row, col, change < 0, kCell, numbers, sums);
    });
  }
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
