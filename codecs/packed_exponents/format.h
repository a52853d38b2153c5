// Stored bytes of packed_exponents, version 1. An element of bf16 is kept as sign, mantissa and a code of four bits:
// its exponent less `lowest`, clamped to 0..15. Records hold the exponents that clamping changed.
//
//   header   lowest (0 to 239: no code stands for infinities and NaNs), three zero bytes
//   fields   blocks of 16 rows, each of groups of 128 columns: 192 bytes a row, row after row, see below; then 64 zero
//            bytes
//   blocks   uint64 a block of 16 rows, and one more: number of its first record
//   records  uint32 each, by row and column, one an element: column in bits 0..19, row of the block in 20..23, exponent
//            above. The exponent is outside of the window, and the element has the nearest code.
//
// A group of 128 columns is four strips of 32 and is stored as three lines of 32 words of 16 bits. Word w has column w
// of every strip:
//
//   line 0   signs and the codes' upper three bits: those of strip 0 in bits 15 and 10..8, of strip 1 in 11 and 6..4,
//            of strip 2 in 7 and 2..0, of strip 3 in 14..12 and, the sign, in bit 3 of word w ^ 1
//   line 1   bytes of the codes' lowest bit above the mantissa: strip 0 in the lower half of the word, strip 1 above
//   line 2   the same of strips 2 and 3
//
// So a shift by 4 or 8, or a rotation of 32 bits by 4, brings a strip's signs and codes to bits 15 and 10..8, where
// they are in an element. Columns past the last one are zero bits. The last group of a row lacks line 2 if it has at
// most 64 columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ecmv::codecs::packed_exponents {

// Section numbers.
inline constexpr int kHeader = 0, kFields = 1, kBlocks = 2, kRecords = 3, kSections = 4;

inline constexpr int64_t kHeaderBytes = 4;
inline constexpr int kCodes = 16, kMostLowest = 239;
inline constexpr int64_t kStripCols = 32, kStrips = 4, kGroupCols = kStripCols * kStrips;
inline constexpr int64_t kLineBytes = 64, kLines = 3, kGroupBytes = kLines * kLineBytes;
inline constexpr int64_t kRowsPerBlock = 16;
inline constexpr int64_t kFieldPadding = 64;
inline constexpr int64_t kMostCols = int64_t{1} << 20;

// Bytes of a row in the group that begins at a column.
inline constexpr int64_t group_bytes(int64_t cols, int64_t first_col) {
  return cols - first_col <= 2 * kStripCols ? 2 * kLineBytes : kGroupBytes;
}
inline constexpr int64_t row_bytes(int64_t cols) {
  const int64_t whole = cols / kGroupCols * kGroupCols;
  return whole / kGroupCols * kGroupBytes + (whole == cols ? 0 : group_bytes(cols, whole));
}
// Where a row's part of the group that begins at a column lies in the fields.
inline constexpr int64_t group_offset(int64_t rows, int64_t cols, int64_t row, int64_t first_col) {
  const int64_t first_row = row / kRowsPerBlock * kRowsPerBlock, block_rows = std::min(rows - first_row, kRowsPerBlock);
  return first_row * row_bytes(cols) + first_col / kGroupCols * block_rows * kGroupBytes +
         (row - first_row) * group_bytes(cols, first_col);
}
inline constexpr int64_t block_count(int64_t rows) { return (rows + kRowsPerBlock - 1) / kRowsPerBlock; }

struct Record {
  int64_t row, col;  // of the block, of the matrix
  int exponent;
};
inline constexpr uint32_t packed_record(Record record) {
  return static_cast<uint32_t>(record.col) | static_cast<uint32_t>(record.row) << 20 |
         static_cast<uint32_t>(record.exponent) << 24;
}
inline constexpr Record record_of(uint32_t packed) {
  return {packed >> 20 & 15, packed & (kMostCols - 1), static_cast<int>(packed >> 24)};
}

// bf16: sign, eight bits of exponent, seven of mantissa.
inline constexpr int exponent_of(uint16_t element) { return element >> 7 & 255; }
inline constexpr uint16_t with_exponent(uint16_t element, int exponent) {
  return static_cast<uint16_t>((element & 0x807fu) | static_cast<unsigned>(exponent) << 7);
}
// What is stored of an element: itself, with the nearest exponent that has a code.
inline constexpr uint16_t clamped(uint16_t element, int lowest) {
  return with_exponent(element, std::clamp(exponent_of(element), lowest, lowest + kCodes - 1));
}

// Where a strip's signs and codes lie in a word of line 0: the lowest of the codes' three bits, and the sign, which
// strip 3 keeps in the neighbouring word.
inline constexpr int kCodePlace[kStrips] = {8, 4, 0, 12}, kSignPlace[kStrips] = {15, 11, 7, 3};

// The element at a column of a group less `lowest` exponents. `words`: the group's, 32 a line.
inline uint16_t field_at(const uint16_t* words, int64_t col) {
  const int64_t strip = col / kStripCols, w = col % kStripCols;
  const unsigned byte = words[(1 + strip / 2) * kStripCols + w] >> (strip % 2 * 8) & 255u,
                 code = words[w] >> kCodePlace[strip] & 7u,
                 sign = words[strip == 3 ? w ^ 1 : w] >> kSignPlace[strip] & 1u;
  return static_cast<uint16_t>(sign << 15 | code << 8 | byte);
}

// All of a group: its lines, of its elements less `lowest` exponents, with zeros past the last column.
inline void pack_group(const uint16_t* fields, uint16_t* words) {
  const uint16_t *strip0 = fields, *strip1 = fields + kStripCols, *strip2 = fields + 2 * kStripCols,
                 *strip3 = fields + 3 * kStripCols;
  for (int64_t w = 0; w < kStripCols; ++w) {
    words[w] = static_cast<uint16_t>((strip0[w] & 0x8700u) | (strip1[w] & 0x8700u) >> 4 | (strip2[w] & 0x8700u) >> 8 |
                                     (strip3[w] & 0x0700u) << 4 | (strip3[w ^ 1] & 0x8000u) >> 12);
    words[kStripCols + w] = static_cast<uint16_t>((strip0[w] & 255u) | (strip1[w] & 255u) << 8);
    words[2 * kStripCols + w] = static_cast<uint16_t>((strip2[w] & 255u) | (strip3[w] & 255u) << 8);
  }
}
// The elements of its lines.
inline void unpack_group(const uint16_t* words, int lowest, uint16_t* elements) {
  const auto put = [&](int64_t at, unsigned field) {
    elements[at] = static_cast<uint16_t>(field + (static_cast<unsigned>(lowest) << 7));
  };
  for (int64_t w = 0; w < kStripCols; ++w) {
    const unsigned signs_and_codes = words[w], first = words[kStripCols + w], second = words[2 * kStripCols + w];
    put(w, (signs_and_codes & 0x8700u) | (first & 255u));
    put(kStripCols + w, (signs_and_codes << 4 & 0x8700u) | first >> 8);
    put(2 * kStripCols + w, (signs_and_codes << 8 & 0x8700u) | (second & 255u));
    put(3 * kStripCols + w, (signs_and_codes >> 4 & 0x0700u) | (words[w ^ 1] << 12 & 0x8000u) | second >> 8);
  }
}

}  // namespace ecmv::codecs::packed_exponents
