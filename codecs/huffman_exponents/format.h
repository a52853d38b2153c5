// Stored bytes of huffman_exponents, version 1; all integers little-endian, drawn in README.md. An element is split
// into its exponent, which has a Huffman code, and its sign and mantissa, which are stored as they are. The setting
// `layout` chooses between two forms.
//
// `container`: one bit stream, MSB first, that thousands of threads can enter: thread i of 512 in a block owns 8 coded
// bytes. The bytes are those that DFloat11 (bf16) and its variants for fp8 (e4m3) write.
//
// `segments`: one bit stream for each row of a tile of 32 rows x segment_cols columns (a multiple of 32), for products
// that decode once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datasets/matrix.h"

namespace ecmv::codecs::huffman_exponents {

inline constexpr int kBf16Exponents = 256, kBf16MantissaBits = 7;
inline constexpr int kF8Exponents = 16, kF8MantissaBits = 3;

constexpr bool is_bf16(datasets::ElementType type) { return type == datasets::ElementType::bf16; }

namespace container {

// Sections as in the file, with spare bytes after the codes.
inline constexpr int kLuts = 0;     // u8 [tables + 1, 256]; the last row: code lengths
inline constexpr int kEncoded = 1;  // bit stream and kSpareBytes
// bf16: a byte an element (sign, mantissa); f8: two elements a byte, the first above, sign << 3 | mantissa
inline constexpr int kSignMantissa = 2;
// u32 [blocks + 1]: first element of each block of 512 threads, and the number of elements. The entry of a last block
// in which no code starts may be missing.
inline constexpr int kOutputPositions = 3;
// gap_bits() a thread, MSB first: bits from its first byte to the first code that starts there; a spare byte
inline constexpr int kGaps = 4;
// i64: where the matrices of one stream begin, without the first; mostly empty
inline constexpr int kSplitPositions = 5;
inline constexpr int kSections = 6;

inline constexpr int kTableRow = 256;
inline constexpr int kThreadBytes = 8;  // coded bytes of a thread
inline constexpr int kThreadBits = 8 * kThreadBytes;
inline constexpr int kBlockThreads = 512;  // threads of an output position
inline constexpr int kBlockBytes = kThreadBytes * kBlockThreads;
// The last thread loads 8 bytes and 4 more, wherever its own begin; CPU kernels load 8 from any byte.
inline constexpr int kSpareBytes = 16;
inline constexpr int kMaxSymbols = 240;  // entries 240..255 of the tables point to row 256 - entry
inline constexpr int kMaxSubtables = 16;

constexpr int gap_bits(datasets::ElementType type) { return is_bf16(type) ? 5 : 4; }
constexpr int max_code_bits(datasets::ElementType type) { return is_bf16(type) ? 32 : 16; }
constexpr int symbols_of(datasets::ElementType type) { return is_bf16(type) ? kMaxSymbols : kF8Exponents; }
constexpr int64_t raw_bytes(int64_t elements, datasets::ElementType type) {
  return is_bf16(type) ? elements : (elements + 1) / 2;
}

}  // namespace container

namespace segments {

// Sections. Tile t = group * segments + segment; groups of 32 rows, the last one of fewer.
inline constexpr int kCode =
    0;  // u16 [17]: codes of each length (of 0 bits: none); u8: their exponents, in the order of canonical codes
inline constexpr int kStreams = 1;  // tile by tile u32 [words, rows of the group]: word k of each row's stream, first
                                    // bit most significant; kSpareWords
inline constexpr int kSignMantissa = 2;  // see raw_index()
inline constexpr int kTiles = 3;         // u32 [tiles + 1]: first word of each tile, and their number
inline constexpr int kSections = 4;

inline constexpr int kGroupRows = 32;
inline constexpr int kUnitBytes = 16;                      // of a row's signs and mantissas
inline constexpr int kSpareWords = 4 * kGroupRows;         // a lane loads three words ahead
inline constexpr int kMaxCodeBits = 16;                    // of the setting code_bits
inline constexpr int kOrderByte = 2 * (kMaxCodeBits + 1);  // of the section kCode

// Signs and mantissas of a group of rows lie unit after unit, a unit as [rows of the group, bytes of the unit]. A unit
// is 16 columns of bf16 or 32 of f8; the last unit of a row may be narrower. Columns are filled up to a multiple of 4
// (f8: 8), which make a word, see raw_part().
constexpr int unit_cols(bool bf16) { return bf16 ? kUnitBytes : 2 * kUnitBytes; }
constexpr int word_cols(bool bf16) { return bf16 ? 4 : 8; }
constexpr int64_t raw_row_bytes(int64_t cols, bool bf16) { return (cols + word_cols(bf16) - 1) / word_cols(bf16) * 4; }
constexpr int64_t rows_of_group(int64_t rows, int64_t group) {
  return rows - group * kGroupRows < kGroupRows ? rows - group * kGroupRows : kGroupRows;
}
// Byte at which the word of column `col` of row `row` begins.
constexpr int64_t raw_index(datasets::Shape shape, bool bf16, int64_t row, int64_t col) {
  const int64_t group = row / kGroupRows, row_bytes = raw_row_bytes(shape.cols, bf16),
                unit = col / unit_cols(bf16) * kUnitBytes;
  const int64_t width = row_bytes - unit < kUnitBytes ? row_bytes - unit : kUnitBytes;
  return group * kGroupRows * row_bytes + rows_of_group(shape.rows, group) * unit + row % kGroupRows * width +
         col % unit_cols(bf16) / word_cols(bf16) * 4;
}
constexpr uint32_t rotated_left(uint32_t word, int bits) {
  return bits % 32 == 0 ? word : word << (bits % 32) | word >> (32 - bits % 32);
}
// How far to rotate a word left so that a column's sign and mantissa stand where they are joined with an exponent, and
// from which bit on they stand there. bf16 joins one element at a time in the upper half, where a float has sign and
// mantissa. f8 joins two, the second in the upper half, each laid out like a bf16.
constexpr int raw_turn(bool bf16, int64_t col) { return static_cast<int>(bf16 ? col % 4 * 8 : col % 8 / 2 * 4); }
constexpr int raw_half(bool bf16, int64_t col) { return bf16 || col % 2 == 1 ? 16 : 0; }
// The bits that a column adds to its word.
constexpr uint32_t raw_part(bool bf16, uint32_t sign, uint32_t mantissa, int64_t col) {
  const uint32_t half = sign << 15 | (bf16 ? mantissa : mantissa << 4);
  return rotated_left(half << raw_half(bf16, col), 32 - raw_turn(bf16, col));
}
// Sign above mantissa of a column, from its word: 8 bits of a bf16, 4 of an f8.
constexpr uint32_t raw_bits(bool bf16, uint32_t word, int64_t col) {
  const uint32_t half = rotated_left(word, raw_turn(bf16, col)) >> raw_half(bf16, col);
  return bf16 ? (half >> 8 & 0x80) | (half & 0x7F) : (half >> 12 & 8) | (half >> 4 & 7);
}

}  // namespace segments

}  // namespace ecmv::codecs::huffman_exponents
