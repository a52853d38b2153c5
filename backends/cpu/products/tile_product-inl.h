// Products of panel_product.h by AMX, which reads rows where they lie and tokens in their packed form. Per-target
// header, for the target whose vectors have 16 words: include it after foreach_target.h.
#if defined(ECMV_BACKENDS_CPU_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_BACKENDS_CPU_TILE_PRODUCT_INL_H_
#undef ECMV_BACKENDS_CPU_TILE_PRODUCT_INL_H_
#else
#define ECMV_BACKENDS_CPU_TILE_PRODUCT_INL_H_
#endif

#include <cstring>
#include <type_traits>
#include <utility>

#include "backends/cpu/products/amx.h"
#include "backends/cpu/products/element_numbers.h"
#include "backends/cpu/products/panel_product.h"
#include "hwy/highway.h"

#if HWY_TARGET == HWY_AVX3_DL && HWY_ARCH_X86_64
HWY_BEFORE_NAMESPACE();
namespace ecmv::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kTileTokens = 16;
inline constexpr int64_t kTilePanelCols = 256;  // of a piece of rows that are not stored as tiles

// Sixteen rows of a slab as AMX loads them: in place, or from a panel of bf16 that has zeros past the rows and columns.
// (Copying all of them, one tile after the other, ran at 12 instead of 14 G elements/s with 16 tokens.)
struct TileRows {
  const std::byte* first;
  int64_t row_bytes;
};

template <int... kIndex, class F>
HWY_INLINE void ForEach(std::integer_sequence<int, kIndex...>, const F& f) {
  (f(std::integral_constant<int, kIndex>{}), ...);
}

// sums[row][token] += kRowTiles * 16 rows times kTokenTiles * 16 tokens. Registers 0 to 3 hold sums, the next ones
// rows, the others tokens.
template <int kRowTiles, int kTokenTiles>
HWY_INLINE void MultiplyTiles(const TileRows* HWY_RESTRICT rows, int64_t tiles, const uint32_t* HWY_RESTRICT x,
                              int64_t x_stride, float* HWY_RESTRICT sums) {
  constexpr int kRows = 4, kTokens = kRows + kRowTiles, kTokenRegisters = 8 - kTokens;
  static_assert(kRowTiles * kTokenTiles <= kRows);
  constexpr std::make_integer_sequence<int, kRowTiles> kEachRowTile;
  constexpr std::make_integer_sequence<int, kTokenTiles> kEachTokenTile;
  constexpr int64_t kSumBytes = kMaxBatch * sizeof(float);
  const auto sum_of = [&](int r, int t) { return sums + r * kTileRows * kMaxBatch + t * kTileTokens; };
  ForEach(kEachRowTile, [&](auto r) {
    ForEach(kEachTokenTile, [&](auto t) { LoadTile<r.value * kTokenTiles + t.value>(sum_of(r, t), kSumBytes); });
  });
  for (int64_t i = 0; i < tiles; ++i, x += kTileSteps * kTileTokens) {
    ForEach(kEachRowTile,
            [&](auto r) { LoadTile<kRows + r.value>(rows[r].first + i * kTileRowBytes, rows[r].row_bytes); });
    ForEach(kEachTokenTile, [&](auto t) {
      constexpr int kToken = kTokens + t.value % kTokenRegisters;
      LoadTile<kToken>(x + t.value * x_stride, kTileRowBytes);
      ForEach(kEachRowTile, [&](auto r) { MultiplyPairs<r.value * kTokenTiles + t.value, kRows + r.value, kToken>(); });
    });
  }
  ForEach(kEachRowTile, [&](auto r) {
    ForEach(kEachTokenTile, [&](auto t) { StoreTile<r.value * kTokenTiles + t.value>(sum_of(r, t), kSumBytes); });
  });
}

// Multiplies one or two tiles of rows. More than 32 tokens meet two tiles of rows, 32 tokens at a time. Rows from
// memory go one tile at a time through all tokens, so that each is read once: 11 instead of 7 G elements/s with 64
// tokens, but 6.6 instead of 6.9 from a cache.
template <int kRowTiles>
HWY_INLINE void MultiplyTileRows(const TileRows* HWY_RESTRICT rows, bool streamed, int64_t tiles,
                                 const uint32_t* HWY_RESTRICT x, int64_t x_stride, int batch,
                                 float* HWY_RESTRICT sums) {
  if (streamed && batch > 2 * kTileTokens) {
    for (int r = 0; r < kRowTiles; ++r, ++rows, sums += kTileRows * kMaxBatch) {
      if (batch <= 3 * kTileTokens)
        MultiplyTiles<1, 3>(rows, tiles, x, x_stride, sums);
      else
        MultiplyTiles<1, 4>(rows, tiles, x, x_stride, sums);
    }
    return;
  }
  for (; batch > kTileTokens; batch -= 2 * kTileTokens, x += 2 * x_stride, sums += 2 * kTileTokens)
    MultiplyTiles<kRowTiles, 2>(rows, tiles, x, x_stride, sums);
  if (batch > 0) MultiplyTiles<kRowTiles, 1>(rows, tiles, x, x_stride, sums);
}

// Elements of a byte, which bf16 holds exactly.
HWY_INLINE void FillHalves(datasets::ElementType type, const std::byte* HWY_RESTRICT row, int64_t count,
                           uint16_t* HWY_RESTRICT halves) {
  const hn::FixedTag<uint32_t, 16> d;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  HWY_ALIGN float numbers[kTilePanelCols];
  elements_to_floats(type, row, count, numbers);
  const uint32_t* HWY_RESTRICT words = reinterpret_cast<const uint32_t*>(numbers);
  int64_t c = 0;
  for (; c + 16 <= count; c += 16)
    hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(hn::Load(d, words + c))), d16, halves + c);
  for (; c < count; ++c) halves[c] = static_cast<uint16_t>(words[c] >> 16);
}

// Adds to sums[row][token] the products of up to 32 rows from `first_row` on with tokens that were packed in whole
// tiles. It prefetches nothing, which was slower (13.5 instead of 15 G elements/s with 16 tokens, 8.5 instead of 12
// with 32). Long pieces are faster for rows from memory, 11 instead of 9.5 with 64 tokens; short ones for rows from a
// cache, 7.6 instead of 6.9.
inline HWY_NOINLINE void MultiplySlabByTiles(const PanelRows& matrix, int64_t first_row, int64_t rows,
                                             const PackedTokens& tokens, int batch, float* HWY_RESTRICT sums) {
  static_assert(kMaxBatch == 4 * kTileTokens);
  constexpr int64_t kTileCols = 2 * kTileSteps;
  HWY_ALIGN uint16_t panels[2][kTileRows * kTilePanelCols];
  const TileRegisters registers;
  const bool halves = matrix.type == datasets::ElementType::bf16, whole_rows = halves && rows % kTileRows == 0;
  const int64_t bytes = datasets::element_bytes(matrix.type);
  const int64_t x_stride = ((tokens.cols + 1) / 2 + kTileSteps - 1) / kTileSteps * kTileSteps * kTileTokens;
  const uint32_t* HWY_RESTRICT x =
      reinterpret_cast<const uint32_t*>(tokens.packed) + tokens.first_col / 2 * kTileTokens;
  for (int64_t first = 0, count = 0; first < matrix.cols; first += count, x += count / 2 * kTileTokens) {
    count = HWY_MIN(matrix.streamed && whole_rows ? 4 * kTilePanelCols : kTilePanelCols, matrix.cols - first);
    if (whole_rows && count > kTileCols) count -= count % kTileCols;
    const bool whole = whole_rows && count % kTileCols == 0;
    const std::byte* const piece = matrix.elements + first_row * matrix.row_bytes + bytes * first;
    TileRows tile_rows[2] = {};
    for (int64_t half = 0; half * kTileRows < rows; ++half) {
      const std::byte* const from = piece + half * kTileRows * matrix.row_bytes;
      tile_rows[half] = {from, matrix.row_bytes};
      if (whole) continue;
      std::memset(panels[half], 0, sizeof(panels[half]));
      for (int64_t i = 0; i < HWY_MIN(kTileRows, rows - half * kTileRows); ++i) {
        uint16_t* const row = panels[half] + i * kTilePanelCols;
        if (halves)
          std::memcpy(row, from + i * matrix.row_bytes, static_cast<size_t>(2 * count));
        else
          FillHalves(matrix.type, from + i * matrix.row_bytes, count, row);
      }
      tile_rows[half] = {reinterpret_cast<const std::byte*>(panels[half]), 2 * kTilePanelCols};
    }
    const int64_t tiles = (count + kTileCols - 1) / kTileCols;
    if (rows > kTileRows)
      MultiplyTileRows<2>(tile_rows, matrix.streamed, tiles, x, x_stride, batch, sums);
    else
      MultiplyTileRows<1>(tile_rows, matrix.streamed, tiles, x, x_stride, batch, sums);
  }
}

}  // namespace ecmv::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // ECMV_BACKENDS_CPU_TILE_PRODUCT_INL_H_
