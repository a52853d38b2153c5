// Scales of groups of columns in a product with tokens: the sum that matrix units make over 64 columns is multiplied by
// these columns' scale in each row, and then added to the row's sum. Elements stay small integers, which bf16 holds
// exactly.
#pragma once

#include <bit>

#include "backends/gpu/products/token_units.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Columns of a group: this many, or 2, 4, 8, ... times as many (Kernel::group_cols).
inline constexpr int kScaleCols = 64;

struct ColumnScales {
  Pointer<const uint16_t> stored;  // bf16, [rows, groups], or [groups] for all rows
  int row_scales;                  // from one row to the next
  int group_shift;                 // a column's group is its number >> group_shift

  ECMV_GPU_DEVICE Pointer<const uint16_t> of_row(int64_t row) const { return stored + row * row_scales; }
  ECMV_GPU_DEVICE float of(int64_t row, int col) const {
    return float_of(uint32_t{*(of_row(row) + (col >> group_shift))} << 16);
  }
};

// For layers whose scales such a kernel takes (takes_scales).
inline ColumnScales column_scales_of(const GroupScales& scales) {
  const datasets::Scales& layout = *scales.layout;
  return {reinterpret_cast<const uint16_t*>(scales.stored), layout.rows == 1 ? 0 : static_cast<int>(layout.groups),
          std::countr_zero(static_cast<uint64_t>(layout.group_cols))};
}

// A lane's scales for kStrips times 64 columns in kPairs pairs of rows: g, g + 8, g + 16, ... They are loaded before
// they are needed.
template <int kPairs, int kStrips>
struct StripScales {
  Pointer<const uint16_t> first_row;
  int rows[2 * kPairs];  // offsets in scales from there: half the registers of pointers
  int group_shift, last_col;
  uint32_t words[kPairs][kStrips];  // the lower half is the first row's

  ECMV_GPU_DEVICE StripScales(const ColumnScales& scales, int64_t row, int64_t last_row, int cols)
      : first_row(scales.of_row(row < last_row ? row : last_row)), group_shift(scales.group_shift), last_col(cols - 1) {
    const int left = row < last_row ? static_cast<int>(last_row - row) : 0;
    ECMV_GPU_UNROLL
    for (int i = 0; i < 2 * kPairs; ++i) rows[i] = (8 * i < left ? 8 * i : left) * scales.row_scales;
  }
  // Loads the scales of the columns from `col` on; columns past the end get the last one's.
  ECMV_GPU_DEVICE void load(int col) {
    ECMV_GPU_UNROLL
    for (int strip = 0; strip < kStrips; ++strip) {
      const int at = col + strip * kScaleCols, group = (at < last_col ? at : last_col) >> group_shift;
      ECMV_GPU_UNROLL
      for (int pair = 0; pair < kPairs; ++pair)
        words[pair][strip] = uint32_t{*(first_row + (rows[2 * pair] + group))} |
                             uint32_t{*(first_row + (rows[2 * pair + 1] + group))} << 16;
    }
  }
};

// Takes their place where elements have no scales.
struct NoScales {
  ECMV_GPU_DEVICE NoScales(const ColumnScales&, int64_t, int64_t, int) {}
  ECMV_GPU_DEVICE void load(int) {}
};

// sums += the products of 64 columns in two rows eight apart, times their scales.
template <int kTokenTiles>
ECMV_GPU_DEVICE void add_scaled(const float (&products)[kTokenTiles][4], uint32_t scales,
                                float (&sums)[kTokenTiles][4]) {
  const float upper = float_of(scales << 16), lower = float_of(scales & 0xFFFF0000u);
  ECMV_GPU_UNROLL
  for (int k = 0; k < kTokenTiles; ++k) {
    sums[k][0] += upper * products[k][0];
    sums[k][1] += upper * products[k][1];
    sums[k][2] += lower * products[k][2];
    sums[k][3] += lower * products[k][3];
  }
}

// The rounding of such sums: chains of 64 columns, each then scaled and added.
inline ProductRounding scaled_rounding(int64_t cols, int64_t parts) {
  return token_rounding(kScaleCols, parts + 2 * ((cols + kScaleCols - 1) / kScaleCols));
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
