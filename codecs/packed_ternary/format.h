// Stored bytes of packed_ternary, version 1: weights of three values, five in a byte, and nothing else.
//
//   codes   blocks of 16 rows; of each, groups of 320 columns; of each, 16 rows of 64 bytes
//
// A group is five strips of 64 columns. Byte j of a row has column j of each strip. With the digits d = w + 1 of strips
// 0 to 4, v = 81 d0 + 27 d1 + 9 d2 + 3 d3 + d4 (0 to 242), the byte is v * 256 / 243, rounded up. In 3^(s + 1) * byte,
// the bits from number 8 on are the digits of strips 0 to s as one number: 3^(s + 1) * byte / 256 is v / 3^(4 - s) and
// less than 3^-(4 - s) more. Rows and columns that the matrix does not have are filled up with zeros.
//
// llama.cpp's type TQ1_0 has the same trick: multiplying a byte reads its digits from the top.
#pragma once

#include <array>
#include <cstdint>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::packed_ternary {

inline constexpr int kCodes = 0;  // section number

inline constexpr int kDigits = 5;  // of a byte
inline constexpr int64_t kStripCols = 64, kGroupCols = kDigits * kStripCols, kRowsOfBlock = 16,
                         kGroupBytes = kRowsOfBlock * kStripCols;
inline constexpr std::array<int, kDigits> kPowers = {3, 9, 27, 81, 243};

inline constexpr int64_t row_blocks(int64_t rows) { return (rows + kRowsOfBlock - 1) / kRowsOfBlock; }
inline constexpr int64_t column_groups(int64_t cols) { return (cols + kGroupCols - 1) / kGroupCols; }
inline constexpr int64_t stored_bytes(datasets::Shape shape) {
  return row_blocks(shape.rows) * column_groups(shape.cols) * kGroupBytes;
}
// The 64 bytes of a row of a group.
inline constexpr int64_t row_offset(int64_t row, int64_t group, int64_t cols) {
  return (row / kRowsOfBlock * column_groups(cols) + group) * kGroupBytes + row % kRowsOfBlock * kStripCols;
}

inline constexpr int stored_byte(int digits) { return (digits * 256 + 242) / 243; }
// The digits of strips 0 to `strip` as one number.
inline constexpr int leading_digits(int byte, int strip) { return byte * kPowers[static_cast<size_t>(strip)] >> 8; }

inline const uint8_t* codes_of(const CompressedView& matrix) {
  return reinterpret_cast<const uint8_t*>(matrix.sections[kCodes].bytes.data());
}

}  // namespace ecmv::codecs::packed_ternary
