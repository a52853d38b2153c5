// Products with tokens of bf16 on matrix units (backends/gpu/products/token_matmul.h): fields become bf16 numbers in
// registers, and outlier records are added to the rows' sums at the end. Columns are whole groups of 512.
#pragma once

#include "backends/gpu/products/token_matmul.h"
#include "codecs/packed_outliers/records_gpu.h"

namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE {

template <int kBits>
struct FieldElements {
  static constexpr int kLoads = kBits, kStrips = static_cast<int>(packed_outliers::kStrips), kCols = 16,
                       kWholeCols = 4 * kCols * kStrips, kTokenRun = 8;
  static constexpr bool kFinishes = true, kScaled = false;
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
  ECMV_GPU_DEVICE void finish(gpu::Pointer<float> sums, int block_rows, int token_sums, int64_t first_row, int cols,
                              const gpu::Bf16Tokens& tokens, int share, int shares) const {
    add_records(sums, block_rows, token_sums, first_row, cols, tokens, share, shares,
                [](int64_t, int) { return 1.0f; });
  }

 protected:
  // Adds the records' deltas, each multiplied by scale(row, column). A lane group follows the records of one block of
  // rows, in all columns; the shares take turns.
  template <typename Scale>
  ECMV_GPU_DEVICE void add_records(gpu::Pointer<float> sums, int block_rows, int token_sums, int64_t first_row,
                                   int cols, const gpu::Bf16Tokens& tokens, int share, int shares, Scale scale) const {
    constexpr int kBlockRows = static_cast<int>(kRowsPerBlock);
    for (int i = (LaneGroup::group() * shares + share) * kBlockRows; i < block_rows;
         i += gpu::block_size() / kLanes * shares * kBlockRows) {
      if (first_row + i >= tokens.rows) break;
      const Records of_block = records_of(header, records, (first_row + i) / kBlockRows);
      RecordWalk(of_block, of_block.first, of_block.last, 0).run(cols, [&](int64_t, int row, int col, int delta) {
        const float number = static_cast<float>(delta) * scale(first_row + i + row, col);
        for (int token = 0; token < tokens.batch; ++token)
          gpu::atomic_add(sums + (token * token_sums + i + row),
                          number * gpu::float_of(uint32_t{tokens.x[token * tokens.x_stride + col]} << 16));
      });
    }
  }
};

// The same with scales of groups of columns.
template <int kBits>
struct ScaledFields : gpu::ScaledElements<FieldElements<kBits>> {
  using gpu::ScaledElements<FieldElements<kBits>>::ScaledElements;
  ECMV_GPU_DEVICE void finish(gpu::Pointer<float> sums, int block_rows, int token_sums, int64_t first_row, int cols,
                              const gpu::Bf16Tokens& tokens, int share, int shares) const {
    this->add_records(sums, block_rows, token_sums, first_row, cols, tokens, share, shares,
                      [&](int64_t row, int col) { return this->scales.of(row, col); });
  }
};

}  // namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE
