// The part of a lane group in a product with tokens of bf16 (token_matmul.h): it brings rows and tokens to shared
// memory and multiplies them. A lane's columns of a row lie together (16 bytes). Which of them meets which column of
// the matrix unit does not matter, as long as the tokens' columns are dealt in the same way.
#pragma once

#include <type_traits>

#include "backends/gpu/products/column_scales.h"
#include "backends/gpu/products/dealt_lines.h"
#include "backends/gpu/products/token_copies.h"
#include "backends/gpu/products/token_entries.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Elements tells how rows are loaded and multiplied:
//   kLoads       loads of 16 bytes by a lane from a row in a step (64 bytes by four lanes)
//   kStrips      strips of columns in a step
//   kCols        a lane's columns of a strip
//   kWholeCols   a matrix's columns are a multiple of it
//   Rows         Rows<kRowTiles> brings rows to shared memory: StoredRows, or a class of the elements' own
//   chunks()     a strip's elements of the rows g and g + 8
//   operands()   8 of their columns (number `eighth`) as two operands of multiply_tokens
//   kTokenRun    8: a lane's columns lie side by side; else they are dealt in runs of this many, and token_col() is
//                where a run goes in a strip's 4 kCols columns
//   kDealt       whether lanes of warpgroups get the words of a row's 64 bytes as dealt_lines.h deals them. operands()
//                are then the columns of the matrix unit in order, and tokens keep theirs. Else
//   unit_pair()  is the place of the numbers of two columns in a block of 64 columns (warpgroup_units.h), where they
//                meet these operands
//   kFours       whether kernels are compiled for four tiles of tokens as well
//   Entries      what is done to a lane group's sums at the end: single elements are added, which were loaded as the
//                product began (token_entries.h), or all sums are scaled
template <typename Elements, int kRowTiles>
struct StoredRows;
// For elements whose rows are one chunk each.
struct ChunkOfRow {
  static constexpr int kLoads = 1, kStrips = 1, kTokenRun = 8;
  static constexpr bool kScaled = false, kDealt = false, kFours = false;
  template <int kTokenTiles>
  using Entries = NoEntries<kTokenTiles>;
  static ECMV_GPU_DEVICE void chunks(const uint4 (&above)[1], const uint4 (&below)[1], int, uint4& upper,
                                     uint4& lower) {
    upper = above[0];
    lower = below[0];
  }
};
// Pair 8 t + 2 j + h of a lane with 16 columns.
ECMV_GPU_DEVICE int pair_of_sixteen(int pair) { return (pair >> 1 & 3) << 3 | (pair & 1) << 2 | pair >> 3; }
struct Int8Elements : ChunkOfRow {
  static constexpr int kCols = 16, kWholeCols = 16;
  template <int kRowTiles>
  using Rows = StoredRows<Int8Elements, kRowTiles>;
  uint32_t exponents = kInt8Exponents;  // nvcc would make a constant once for each use
  ECMV_GPU_DEVICE void operands(const uint4& upper, const uint4& lower, int eighth, uint4 (&a)[2]) const {
    ECMV_GPU_UNROLL
    for (int k = 0; k < 2; ++k) {
      const uint32_t above = word_of(upper, 2 * eighth + k), below = word_of(lower, 2 * eighth + k);
      a[k] = {int8_numbers<0>(above, exponents), int8_numbers<0>(below, exponents), int8_numbers<1>(above, exponents),
              int8_numbers<1>(below, exponents)};
    }
  }
  static ECMV_GPU_DEVICE int unit_pair(int pair) { return pair_of_sixteen(pair); }
};
// f8 (e4m3).
struct F8Elements : ChunkOfRow {
  static constexpr int kCols = 16, kWholeCols = 16;
  template <int kRowTiles>
  using Rows = StoredRows<F8Elements, kRowTiles>;
  static ECMV_GPU_DEVICE void operands(const uint4& upper, const uint4& lower, int eighth, uint4 (&a)[2]) {
    ECMV_GPU_UNROLL
    for (int k = 0; k < 2; ++k) {
      const uint32_t above = word_of(upper, 2 * eighth + k), below = word_of(lower, 2 * eighth + k);
      a[k] = {f8_numbers<0>(above), f8_numbers<0>(below), f8_numbers<1>(above), f8_numbers<1>(below)};
    }
  }
  static ECMV_GPU_DEVICE int unit_pair(int pair) { return pair_of_sixteen(pair); }
};
struct Bf16Elements : ChunkOfRow {
  static constexpr int kCols = 8, kWholeCols = 8;
  static constexpr bool kDealt = true, kFours = true;
  template <int kRowTiles>
  using Rows = StoredRows<Bf16Elements, kRowTiles>;
  static ECMV_GPU_DEVICE void operands(const uint4& upper, const uint4& lower, int, uint4 (&a)[2]) {
    a[0] = {upper.x, lower.x, upper.y, lower.y};
    a[1] = {upper.z, lower.z, upper.w, lower.w};
  }
};
// Elements with scales of groups of columns, in strips of 64.
template <typename Elements>
struct ScaledElements : Elements {
  static constexpr bool kScaled = true;
  static_assert(4 * Elements::kCols == kScaleCols);
  ColumnScales scales;
  ScaledElements(const Elements& elements, const ColumnScales& of) : Elements(elements), scales(of) {}
};
// A lane's scales for a step.
template <typename Elements, int kPairs>
ECMV_GPU_DEVICE auto step_scales(const Elements& elements, int64_t row, int64_t last_row, int cols) {
  if constexpr (Elements::kScaled)
    return StripScales<kPairs, Elements::kStrips>(elements.scales, row, last_row, cols);
  else
    return NoScales(ColumnScales{}, row, last_row, cols);
}

template <typename Elements>
inline constexpr int kStepCols = 4 * Elements::kCols* Elements::kStrips;
// Keeps a tile's eight tokens in different banks: with 16 columns a lane, every other 16 bytes are read at once; with
// 8, neighbouring ones.
template <typename Elements>
inline constexpr int kTokenPadding = Elements::kCols == 16 ? 16 : 64;

inline constexpr int kTileRows = 16, kLaneBytes = 16, kPlaceBytes = kTokenLanes * kLaneBytes;

// Where a lane group's rows begin: row `first` of the matrix and its last one, the first step, and the columns that the
// block still has from there.
struct RowsPlace {
  Pointer<const std::byte> w;
  int64_t row_bytes, first, last;
  int step, cols_left;
};

// This lane's bytes of its lane group's rows, from the next step on, for a matrix stored row by row.
template <typename Elements, int kRowTiles>
struct StoredRows {
  static constexpr int kLoads = Elements::kLoads;
  Pointer<const std::byte> next[2 * kRowTiles];  // in rows g, g + 8, ...; past the end, the last one again
  int cols_left;                                 // from this lane's first column of the step

  explicit ECMV_GPU_DEVICE StoredRows(const Elements&, const RowsPlace& place) {
    const int lane = Lanes<kTokenLanes>::lane(), g = lane / 4, t = lane % 4;
    ECMV_GPU_UNROLL
    for (int i = 0; i < 2 * kRowTiles; ++i) {
      const int64_t row = place.first + g + 8 * i;
      next[i] = place.w +
                ((row < place.last ? row : place.last) * place.row_bytes + (place.step * kLoads * 4 + t) * kLaneBytes);
    }
    cols_left = place.cols_left - t * Elements::kCols;
  }
  // Starts the copies of the next step to this lane's places of a stage.
  ECMV_GPU_DEVICE void copy(Pointer<std::byte> stage, int parts) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < 2 * kRowTiles * kLoads; ++i) {
      copy_async_or_zero<kLaneBytes>(stage + i * kPlaceBytes, next[i / kLoads] + i % kLoads * (4 * kLaneBytes),
                                     cols_left > 0);
    }
    ECMV_GPU_UNROLL
    for (int i = 0; i < 2 * kRowTiles; ++i) next[i] = next[i] + parts * (kLoads * 4 * kLaneBytes);
    cols_left -= parts * kStepCols<Elements>;
  }
};

// A form: the lane groups of a block, each lane group's tiles of 16 rows, the tiles of 8 tokens, the steps under way,
// and whether four lane groups multiply as a warpgroup (warpgroup_units.h).
template <typename Elements, int kGroups, int kRowTiles, int kTokenTiles, int kAhead, bool kByWarpgroup>
struct TokenForm {
  using LaneGroup = Lanes<kTokenLanes>;
  static constexpr int kThreads = kGroups * kTokenLanes, kRows = kTileRows * kRowTiles, kLoads = Elements::kLoads,
                       kCopies = 2 * kRowTiles * kLoads, kStageBytes = kCopies * kPlaceBytes;
  static constexpr bool kDealt = kByWarpgroup && Elements::kDealt;

  using Rows = typename Elements::template Rows<kRowTiles>;

  using Runs = TokenRuns<Elements::kTokenRun>;
  using Entries = typename Elements::template Entries<kTokenTiles>;

  // Where this lane copies its 16 bytes to, in each place of a stage.
  static ECMV_GPU_DEVICE int own_place() {
    const int lane = LaneGroup::lane();
    return kDealt ? dealt_place(lane / 4, lane % 4) : lane * kLaneBytes;
  }

  // Starts the copies of a slice of the tokens, with zeros from end_col on.
  static ECMV_GPU_DEVICE void copy_tokens(const Runs& runs, const Bf16Tokens& tokens, int first_col, int end_col,
                                          int slice_cols, int token_bytes, Pointer<std::byte> to) {
    if constexpr (kDealt) {
      copy_blocks_of_tokens<8 * kTokenTiles>(tokens, first_col, end_col, slice_cols, to);
    } else if constexpr (kByWarpgroup) {
      copy_token_blocks(tokens, first_col, end_col, slice_cols, 8 * kTokenTiles, to);
    } else {
      runs.copy(tokens, first_col, end_col, token_bytes, to, [](int col) {
        if constexpr (Elements::kTokenRun == 8)
          return col;
        else
          return Elements::token_col(col);
      });
    }
  }
  // All threads call it, before a barrier and before reading the copies.
  static ECMV_GPU_DEVICE void tokens_are_there() {
    if constexpr (kByWarpgroup) order_before_units();
  }

  // Multiplies the step of a stage of this lane group. `col` is the part's first column in the slice; offsets[k] lead
  // from the slice's first byte to this lane's columns of its token of tile k; `scales` are the step's. Calls read()
  // when the stage may be refilled.
  template <typename Scales, typename Read>
  static ECMV_GPU_DEVICE void multiply(const Elements& elements, Pointer<const std::byte> stage,
                                       Pointer<const std::byte> slice, int col, const int (&offsets)[kTokenTiles],
                                       const Scales& scales, float (&sums)[kRowTiles][kTokenTiles][4], Read read) {
    uint4 rows[2 * kRowTiles][kLoads];
    if constexpr (kDealt) LaneGroup::sync();
    ECMV_GPU_UNROLL
    for (int i = 0; i < kCopies; ++i) {
      uint4& words = rows[i / kLoads][i % kLoads];
      if constexpr (kDealt)
        words = load_dealt(stage + i * kPlaceBytes);
      else
        words = *cast<const uint4>(stage + (i * kPlaceBytes + LaneGroup::lane() * kLaneBytes));
    }
    if constexpr (kDealt) LaneGroup::sync();
    read();
    if constexpr (kByWarpgroup)
      multiply_by_warpgroup(elements, rows, slice, col, sums);
    else
      multiply_by_warps(elements, rows, slice + col * 2, offsets, scales, sums);
  }

  // Multiplies rows in registers by blocks of the tokens.
  static ECMV_GPU_DEVICE void multiply_by_warpgroup(const Elements& elements,
                                                    const uint4 (&rows)[2 * kRowTiles][kLoads],
                                                    Pointer<const std::byte> slice, int col,
                                                    float (&sums)[kRowTiles][kTokenTiles][4]) {
    constexpr int kUnits = Elements::kCols / 4;  // of 16 columns, in a strip
    const Pointer<const std::byte> block = slice + col / kBlockCols * (8 * kTokenTiles * kBlockTokenBytes);
    const int first_unit = col % kBlockCols / kUnitCols;  // 0 where a step has several strips
    const SharedBlocks blocks(block);
    ECMV_GPU_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      ECMV_GPU_UNROLL
      for (int strip = 0; strip < Elements::kStrips; ++strip) {
        uint4 upper, lower, a[kUnits / 2][2];
        elements.chunks(rows[2 * r], rows[2 * r + 1], strip, upper, lower);
        if (r + strip > 0) wait_for_products();
        ECMV_GPU_UNROLL
        for (int eighth = 0; eighth < kUnits / 2; ++eighth) elements.operands(upper, lower, eighth, a[eighth]);
        begin_products();
        ECMV_GPU_UNROLL
        for (int unit = 0; unit < kUnits; ++unit)
          multiply_block(a[unit / 2][unit % 2], blocks,
                         strip * kUnits / kUnitsOfBlock * (8 * kTokenTiles * kBlockTokenBytes),
                         first_unit + strip * kUnits % kUnitsOfBlock + unit, sums[r]);
        commit_products();
      }
    }
    wait_for_products();
  }

 private:
  // `tokens` point to this step's columns, `offsets` count from there.
  template <typename Scales>
  static ECMV_GPU_DEVICE void multiply_by_warps(const Elements& elements, const uint4 (&rows)[2 * kRowTiles][kLoads],
                                                Pointer<const std::byte> tokens, const int (&offsets)[kTokenTiles],
                                                const Scales& scales, float (&sums)[kRowTiles][kTokenTiles][4]) {
    ECMV_GPU_UNROLL
    for (int strip = 0; strip < Elements::kStrips; ++strip) {
      uint4 chunks[2 * kRowTiles];
      ECMV_GPU_UNROLL
      for (int r = 0; r < kRowTiles; ++r)
        elements.chunks(rows[2 * r], rows[2 * r + 1], strip, chunks[2 * r], chunks[2 * r + 1]);
      const Pointer<const std::byte> own = tokens + strip * (8 * Elements::kCols);
      if constexpr (Elements::kScaled) {
        float products[kRowTiles][kTokenTiles][4] = {};
        multiply_strip(elements, chunks, own, offsets, products);
        ECMV_GPU_UNROLL
        for (int r = 0; r < kRowTiles; ++r) add_scaled(products[r], scales.words[r][strip], sums[r]);
      } else {
        multiply_strip(elements, chunks, own, offsets, sums);
      }
    }
  }
  static ECMV_GPU_DEVICE void multiply_strip(const Elements& elements, const uint4 (&chunks)[2 * kRowTiles],
                                             Pointer<const std::byte> tokens, const int (&offsets)[kTokenTiles],
                                             float (&sums)[kRowTiles][kTokenTiles][4]) {
    ECMV_GPU_UNROLL
    for (int eighth = 0; eighth < Elements::kCols / 8; ++eighth) {
      uint4 a[kRowTiles][2];
      ECMV_GPU_UNROLL
      for (int r = 0; r < kRowTiles; ++r) elements.operands(chunks[2 * r], chunks[2 * r + 1], eighth, a[r]);
      ECMV_GPU_UNROLL
      for (int tile = 0; tile < kTokenTiles; ++tile) {
        const uint4 x = *cast<const uint4>(tokens + (offsets[tile] + eighth * kLaneBytes));
        ECMV_GPU_UNROLL
        for (int r = 0; r < kRowTiles; ++r) {
          multiply_tokens(a[r][0], uint2{x.x, x.y}, sums[r][tile]);
          multiply_tokens(a[r][1], uint2{x.z, x.w}, sums[r][tile]);
        }
      }
    }
  }
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
