// Products of plain packed panels with tokens of bf16 on matrix units (backends/gpu/products/token_matmul.h). A panel
// of 16 rows x 32 columns is already dealt to lanes as operands of matrix units: a lane's two words of it are its
// numbers of rows g and g + 8. Symbols become the integers symbol + zero_point / scale, exact in bf16; sums are scaled
// at the end.
//
// The eight elements of a word take 3 operations to separate nibbles, 4 byte permutations and 4 multiply-adds of two
// numbers. The 16 elements of a panel and lane take one copy, one load of shared memory for two panels, and 2 products
// a tile of eight tokens, each with half a load of tokens.
#pragma once

#include "backends/gpu/products/token_matmul.h"
#include "codecs/tile_rans/format.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

// A step: panels side by side, with 16 bytes of a lane for two of them.
inline constexpr int kStepPanels = 4, kLanePanelBytes = kPackedPanelBytes / kLanes;

struct PanelElements;

// Panels of 16 rows lie strip by strip (kTileRows rows), in a strip column after column.
template <int kRowTiles>
struct PackedPanelRows {
  gpu::Pointer<const std::byte>
      next[kRowTiles];        // of this lane, of the step's first panel; rows that do not exist: the last
  int step_bytes[kRowTiles];  // from one panel to the one beside it
  int cols_left;

  ECMV_GPU_DEVICE PackedPanelRows(const PanelElements&, const gpu::RowsPlace& place) : cols_left(place.cols_left) {
    constexpr int kStripPanels = kTileRows / kPanelRows;
    const int64_t last = place.last / kPanelRows;
    ECMV_GPU_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      const int64_t own = place.first / kPanelRows + r, panel = own < last ? own : last, strip = panel / kStripPanels,
                    strip_first = strip * kStripPanels, down = last + 1 - strip_first;
      step_bytes[r] = static_cast<int>(down < kStripPanels ? down : kStripPanels) * static_cast<int>(kPackedPanelBytes);
      next[r] =
          place.w + (strip_first * kPanelRows * place.row_bytes + (panel - strip_first) * kPackedPanelBytes +
                     int64_t{place.step} * kStepPanels * step_bytes[r] + gpu::Lanes<kLanes>::lane() * kLanePanelBytes);
    }
  }
  ECMV_GPU_DEVICE void copy(gpu::Pointer<std::byte> stage, int parts) {
    ECMV_GPU_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      ECMV_GPU_UNROLL
      for (int panel = 0; panel < kStepPanels; ++panel) {
        const gpu::Pointer<std::byte> to =
            stage + ((2 * r + panel / 2) * gpu::kPlaceBytes + panel % 2 * kLanePanelBytes);
        gpu::copy_async_or_zero<kLanePanelBytes>(to, next[r] + panel * step_bytes[r], cols_left > panel * kPanelCols);
      }
      next[r] = next[r] + int64_t{parts} * kStepPanels * step_bytes[r];
    }
    cols_left -= parts * kStepPanels * kPanelCols;
  }
};

struct PanelElements;

// Multiplies a lane group's sums by the scale of all elements; there are no single ones.
struct SumScale {
  float scale;
  int rows;

  ECMV_GPU_DEVICE SumScale(const PanelElements& elements, const gpu::GroupRows& place);
  ECMV_GPU_DEVICE void load() {}
  ECMV_GPU_DEVICE void look_up(const gpu::Bf16Tokens&) {}
  ECMV_GPU_DEVICE void add(const gpu::GroupSums& sums, const gpu::Bf16Tokens& tokens) const;
};

struct PanelElements {
  static constexpr int kLoads = 1, kStrips = kStepPanels, kCols = kPanelCols / 4, kWholeCols = 1, kTokenRun = 4;
  static constexpr bool kScaled = false, kDealt = false, kFours = false;
  template <int>
  using Entries = SumScale;
  template <int kRowTiles>
  using Rows = PackedPanelRows<kRowTiles>;

  uint32_t exponents, to_element;
  float scale;

  // The words of panel `strip` for rows g and g + 8.
  static ECMV_GPU_DEVICE void chunks(const gpu::uint4 (&left)[1], const gpu::uint4 (&right)[1], int strip,
                                     gpu::uint4& words, gpu::uint4& none) {
    none = gpu::uint4{};
    const gpu::uint4 two = strip < 2 ? left[0] : right[0];
    words = strip % 2 == 0 ? gpu::uint4{two.x, two.y, 0, 0} : gpu::uint4{two.z, two.w, 0, 0};
  }
  ECMV_GPU_DEVICE void operands(const gpu::uint4& words, const gpu::uint4&, int, gpu::uint4 (&a)[2]) const {
    ECMV_GPU_UNROLL
    for (int k = 0; k < 2; ++k) {
      const uint32_t word = gpu::word_of(words, k), above = word & 0x0F0F0F0Fu, below = word >> 4 & 0x0F0F0F0Fu;
      a[k] = {gpu::field_numbers<0>(above, exponents, to_element), gpu::field_numbers<0>(below, exponents, to_element),
              gpu::field_numbers<1>(above, exponents, to_element), gpu::field_numbers<1>(below, exponents, to_element)};
    }
  }
  // A lane has four neighbours in each half of 32 columns; here they are side by side.
  static ECMV_GPU_DEVICE int token_col(int col) {
    return (col & ~(kPanelCols - 1)) | (col & 15) * 2 | (col >> 4 & 1) * 4;
  }
  static ECMV_GPU_DEVICE int unit_pair(int pair) { return (pair & ~7) | (pair & 1) << 2 | (pair >> 1 & 3); }
};

ECMV_GPU_DEVICE SumScale::SumScale(const PanelElements& elements, const gpu::GroupRows& place)
    : scale(elements.scale), rows(place.count) {}
ECMV_GPU_DEVICE void SumScale::add(const gpu::GroupSums& to, const gpu::Bf16Tokens& tokens) const {
  using LaneGroup = gpu::Lanes<gpu::kTokenLanes>;
  for (int first = 0; first < rows; first += gpu::kTileRows) {
    for (int i = LaneGroup::lane(); i < tokens.batch * gpu::kTileRows; i += LaneGroup::size()) {
      const gpu::Pointer<float> sum = to.sums + (i / gpu::kTileRows * to.token_sums + first + i % gpu::kTileRows);
      *sum = *sum * scale;
    }
  }
}

// Lane groups, tiles of 16 rows of each, steps under way, blocks of a multiprocessor, shares, warpgroup.
inline constexpr gpu::TokenPolicy kTokenPolicies[] = {
    {{"groups16_ahead4"}, 16, 1, 4, 1, 1, false},
    {{"warpgroup16_rows32_ahead3_shares4"}, 16, 2, 3, 1, 4, true},
    {{"groups8_ahead3"}, 8, 1, 3, 1, 1, false},
    {{"warpgroup8_ahead2_shares4"}, 8, 1, 2, 1, 4, true},
};

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
