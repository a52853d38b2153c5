// The stored matrix as kernels on CPUs see it. They trust the bytes: they run only what the reference decoder accepted.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/packed_exponents/format.h"

namespace ecmv::codecs::packed_exponents {

static_assert(std::endian::native == std::endian::little, "Stored numbers are little-endian and are read in place.");

struct Stored {
  int64_t rows, cols;
  int lowest;
  const std::byte* fields;
  const std::byte* blocks;
  const std::byte* records;

  uint64_t first_record(int64_t block) const { return load<uint64_t>(blocks, block); }

  const std::byte* group(int64_t row, int64_t first_col) const {
    return fields + group_offset(rows, cols, row, first_col);
  }
  // Copies a row's part of a group that begins at a column: all lines that it has.
  void copy_group(int64_t row, int64_t first_col, uint16_t* words) const {
    std::memcpy(words, group(row, first_col), static_cast<size_t>(group_bytes(cols, first_col)));
  }
  // What is stored of a row, to `out`, which may have any alignment.
  void decode_row(int64_t row, std::byte* out) const {
    uint16_t words[kLines * kStripCols] = {}, elements[kGroupCols];
    for (int64_t first = 0; first < cols; first += kGroupCols) {
      copy_group(row, first, words);
      unpack_group(words, lowest, elements);
      std::memcpy(out + 2 * first, elements, static_cast<size_t>(2 * std::min(kGroupCols, cols - first)));
    }
  }
  Record record(uint64_t i) const { return record_of(load<uint32_t>(records, static_cast<int64_t>(i))); }
  // What is stored of an element, less `lowest` exponents.
  uint16_t field(int64_t row, int64_t col) const {
    uint16_t words[kLines * kStripCols];
    copy_group(row, col / kGroupCols * kGroupCols, words);
    return field_at(words, col % kGroupCols);
  }

  // Calls f(row, col, the element, what is stored of it) for the records of some whole blocks of rows.
  template <class F>
  void each_record(backends::Rows range, F f) const {
    for (int64_t row0 = range.begin; row0 < range.end; row0 += kRowsPerBlock) {
      const int64_t block = row0 / kRowsPerBlock;
      for (uint64_t i = first_record(block), end = first_record(block + 1); i < end; ++i) {
        const Record at = record(i);
        const uint16_t stored = field(row0 + at.row, at.col);
        f(row0 + at.row, at.col, with_exponent(stored, at.exponent), static_cast<uint16_t>(stored + (lowest << 7)));
      }
    }
  }

 private:
  template <class T>
  static T load(const std::byte* from, int64_t i) {
    T value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
};

inline Stored stored_of(const CompressedView& view) {
  return {.rows = view.shape.rows,
          .cols = view.shape.cols,
          .lowest = std::to_integer<int>(view.sections[kHeader].host[0]),
          .fields = view.sections[kFields].bytes.data(),
          .blocks = view.sections[kBlocks].bytes.data(),
          .records = view.sections[kRecords].bytes.data()};
}

inline float number_of(uint16_t bf16) { return std::bit_cast<float>(uint32_t{bf16} << 16); }

// What a product w x lacks after stand_in x was added in its place. An infinite x made an infinity of the same sign,
// or, with w = 0, should have made a NaN.
inline float left_over(float w, float stand_in, float x) { return std::isinf(x) ? w * x : (w - stand_in) * x; }

inline int lowest_exponent(const CompressedView& view) { return std::to_integer<int>(view.sections[kHeader].host[0]); }

// How products round that multiply stored elements first and add what records say afterwards: an element that was
// clamped upwards is at most 2^(lowest + 1 - 127) in magnitude, and is taken away again.
inline backends::ProductRounding with_records(backends::ProductRounding rounding, const CompressedView& view) {
  if (view.sections[kRecords].bytes.empty()) return rounding;
  rounding.more_roundings += static_cast<int>(2 * view.shape.cols);
  rounding.offset = std::ldexp(2.0, lowest_exponent(view) + 1 - 127);
  return rounding;
}

}  // namespace ecmv::codecs::packed_exponents
