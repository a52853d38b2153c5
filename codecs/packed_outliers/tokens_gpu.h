// Products with tokens of bf16 on matrix units (backends/gpu/products/token_matmul.h): fields become bf16 numbers in
// registers, and outlier records are added to the rows' sums at the end. Columns are whole groups of 512.
#pragma once

#include "backends/gpu/products/token_matmul.h"
#include "codecs/packed_outliers/records_gpu.h"

namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE {

// The records of a lane group's blocks of rows: their deltas, each multiplied by the scale of its element. The lane
// groups with the same rows take turns.
template <typename Elements, int kTokenTiles>
struct RecordEntries {
  const Elements& elements;
  gpu::GroupRows rows;

  ECMV_GPU_DEVICE RecordEntries(const Elements& of, const gpu::GroupRows& place) : elements(of), rows(place) {}
  ECMV_GPU_DEVICE void load() {}
  ECMV_GPU_DEVICE void look_up(const gpu::Bf16Tokens&) {}
  ECMV_GPU_DEVICE void add(const gpu::GroupSums& sums, const gpu::Bf16Tokens& tokens) const {
    constexpr int kBlockRows = static_cast<int>(kRowsPerBlock);
    for (int i = 0; i < rows.count; i += kBlockRows) {
      const int64_t block = (rows.first + i) / kBlockRows;
      if (block % rows.workers != rows.worker) continue;
      const Records of_block = records_of(elements.header, elements.records, block);
      RecordWalk(of_block, of_block.first, of_block.last, 0)
          .run_together(rows.cols, [&](bool there, int64_t, int row, int col, int delta, int lanes) {
            gpu::TokenEntry entry;
            if (there) {
              const float number = static_cast<float>(delta) * elements.scale(rows.first + i + row, col);
              entry = {i + row, col, number, number};
            }
            gpu::EntryTurns<kTokenTiles>::add_all(entry, 0, lanes, sums, tokens);
          });
    }
  }
};

template <int kBits>
struct FieldElements {
  static constexpr int kLoads = kBits, kStrips = static_cast<int>(packed_outliers::kStrips), kCols = 16,
                       kWholeCols = 4 * kCols * kStrips, kTokenRun = 8;
  static constexpr bool kScaled = false, kDealt = false, kFours = false;
  template <int kTokenTiles>
  using Entries = RecordEntries<FieldElements, kTokenTiles>;
  template <int kRowTiles>
  using Rows = gpu::StoredRows<FieldElements, kRowTiles>;

  uint32_t exponents, to_element;
  gpu::Pointer<const uint8_t> header;
  RecordSections records;

  static ECMV_GPU_DEVICE gpu::uint4 chunk(const gpu::uint4 (&planes)[kBits], int strip) {
    return {fields_of<kBits>(planes, strip, 0), fields_of<kBits>(planes, strip, 1), fields_of<kBits>(planes, strip, 2),
            fields_of<kBits>(planes, strip, 3)};
  }
  static ECMV_GPU_DEVICE void chunks(const gpu::uint4 (&above)[kBits], const gpu::uint4 (&below)[kBits], int strip,
                                     gpu::uint4& upper, gpu::uint4& lower) {
    upper = chunk(above, strip);
    lower = chunk(below, strip);
  }
  ECMV_GPU_DEVICE void operands(const gpu::uint4& upper, const gpu::uint4& lower, int eighth,
                                gpu::uint4 (&a)[2]) const {
    ECMV_GPU_UNROLL
    for (int k = 0; k < 2; ++k) {
      const uint32_t above = gpu::word_of(upper, 2 * eighth + k), below = gpu::word_of(lower, 2 * eighth + k);
      a[k] = {gpu::field_numbers<0>(above, exponents, to_element), gpu::field_numbers<0>(below, exponents, to_element),
              gpu::field_numbers<1>(above, exponents, to_element), gpu::field_numbers<1>(below, exponents, to_element)};
    }
  }
  static ECMV_GPU_DEVICE int unit_pair(int pair) { return gpu::pair_of_sixteen(pair); }
  ECMV_GPU_DEVICE float scale(int64_t, int) const { return 1.0f; }
};

// The same with scales of groups of columns.
template <int kBits>
struct ScaledFields : gpu::ScaledElements<FieldElements<kBits>> {
  using gpu::ScaledElements<FieldElements<kBits>>::ScaledElements;
  template <int kTokenTiles>
  using Entries = RecordEntries<ScaledFields, kTokenTiles>;
  ECMV_GPU_DEVICE float scale(int64_t row, int col) const { return this->scales.of(row, col); }
};

}  // namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE
