// Tiles, segments and lines, the places of raw bits, and where the stored matrix has each element of the matrix
// (FORMAT.md).
#pragma once

#include <algorithm>
#include <cstdint>

#include "codecs/quad_huffman/format/code.h"
#include "datasets/matrix.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr int kTileBytes = 16;  // a tile's entry in the index
inline constexpr int kLanes = 32;      // rows of a tile
inline constexpr int kSegmentSymbols = 32, kMostSegmentCols = kSegmentSymbols * kMostSymbolCols;
inline constexpr int kMostSegmentBits = kSegmentSymbols * kMostTableBits;  // a lane's, with rotated symbols
inline constexpr int kLeastTileCols = 128, kMostTileCols = 2048;
inline constexpr int kLineWords = kLanes, kLineBytes = 4 * kLineWords, kUnitBytes = 16;
inline constexpr int kBlockLinesBits = 2, kBlockLines = 1 << kBlockLinesBits;
inline constexpr int kMostPartialLines = 32;
inline constexpr int kRingLines = 32, kAhead = 1;
// A lane that is moved forward must not become the lane that decides how much is fetched.
static_assert((kAhead + 1) * kSegmentSymbols * kMostTableBits / 32 + kBlockLines + 2 <= kRingLines);

inline constexpr int segment_cols(int symbol_cols) { return kSegmentSymbols * symbol_cols; }
inline constexpr int tile_cols_of(const Header& header) {
  return header.tile_segments * segment_cols(header.symbol_cols);
}
inline constexpr int64_t row_groups(int64_t rows) { return (rows + kLanes - 1) / kLanes; }
inline constexpr int64_t column_tiles(int64_t cols, int tile_cols) { return (cols + tile_cols - 1) / tile_cols; }
// Segments of a whole row; each of its tiles but the last has tile_cols / segment_cols.
inline constexpr int64_t row_segments(int64_t cols, int symbol_cols) {
  return (cols + segment_cols(symbol_cols) - 1) / segment_cols(symbol_cols);
}
inline constexpr int64_t raw_bytes_of_segment(int symbol_cols, Form form) {
  return int64_t{segment_cols(symbol_cols)} / 8 * form.raw_bits * kLanes;
}

// A decoder loads a batch of raw bits at once. These give its columns and words, the words of a unit, and the place of
// word j of the lane's columns [32 * group, 32 * group + 32) in a segment; lanes are a unit apart. (Packed entries, B =
// 3, T = 12, H200, d = 16384: 5.53 to 5.60 T elements/s with 64 columns, 5.76 with 128.)
inline constexpr int batch_cols(int symbol_cols, Form form) {
  return symbol_cols == 8 && form.raw_bits <= 3 ? 128 : 64;
}
inline constexpr int batch_words(int symbol_cols, Form form) {
  return batch_cols(symbol_cols, form) / 32 * form.raw_bits;
}
inline constexpr int raw_unit_words(int symbol_cols, Form form) {
  const int words = batch_words(symbol_cols, form);
  return words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1;
}
inline constexpr int raw_word_offset(int symbol_cols, Form form, int group, int j) {
  const int word = group * form.raw_bits + j, unit = raw_unit_words(symbol_cols, form);
  return (word & -unit) * kLineBytes + (word & (unit - 1)) * 4;
}

// The raw bits of `cols` columns of 32 rows: of whole segments, then the units of words up to the last column. Whoever
// reads the last segment as a whole reads on into the next row group, or into raw_bytes_past() that follow the last
// one. Columns that do not exist take such bits as they come, since x is zero there. (5760 x 2880 of bf16, fragments, K
// = 4 and 8: 10.91 and 11.02 bits an element; with whole segments 11.49 and 11.64.) But with symbols of four columns
// such an exponent might be the largest, and not even zero times an infinite element is zero.
inline constexpr int64_t raw_bytes_of_cols(const Header& header, int64_t cols) {
  const int64_t segment = raw_bytes_of_segment(header.symbol_cols, header.form),
                segment_cols = quad_huffman::segment_cols(header.symbol_cols), left = cols % segment_cols;
  if (header.form.floats && header.symbol_cols == 4 && header.lowest + 31 >= most_exponent(header.form))
    return (cols + segment_cols - 1) / segment_cols * segment;
  const int64_t unit = raw_unit_words(header.symbol_cols, header.form), words = (left + 31) / 32 * header.form.raw_bits;
  return cols / segment_cols * segment + (words + unit - 1) / unit * unit * kLineBytes;
}
inline constexpr int64_t raw_bytes_past(const Header& header, int64_t cols) {
  return row_segments(cols, header.symbol_cols) * raw_bytes_of_segment(header.symbol_cols, header.form) -
         raw_bytes_of_cols(header, cols);
}

struct ElementPlace {
  int64_t row, col;
};

// Fragments: matrix units take A [16, 16] from 32 lanes with eight elements each, a fragment. So 16 rows and 16 columns
// of the matrix, a unit, are stored as eight columns of 32 rows, and a lane decodes its operand as it is. Lane 4 g + t
// has four columns of row g, then the same four of row g + 8. For floats they are 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, so
// tokens stay in the order that they have in memory; for int8, multiplied as bytes, 4 t to 4 t + 3.
inline constexpr int kUnitRows = 16, kUnitCols = 16, kFragmentCols = 8;
inline constexpr datasets::Shape fragments_shape(datasets::Shape shape) {
  return {(shape.rows + kUnitRows - 1) / kUnitRows * kLanes, (shape.cols + kUnitCols - 1) / kUnitCols * kFragmentCols};
}
// How many columns of a fragment follow each other in the matrix.
enum class FragmentRuns { fours = 4, pairs = 2 };
inline constexpr FragmentRuns fragment_runs(bool floats) { return floats ? FragmentRuns::pairs : FragmentRuns::fours; }
// The place in the matrix of the element that is stored at `row`, `col`.
inline constexpr ElementPlace place_of_fragment(int64_t row, int64_t col, FragmentRuns runs) {
  const int64_t lane = row % kLanes, first = col / kFragmentCols * kUnitCols,
                of_unit =
                    runs == FragmentRuns::fours ? lane % 4 * 4 + col % 4 : col / 2 % 2 * 8 + lane % 4 * 2 + col % 2;
  return {row / kLanes * kUnitRows + lane / 4 + col / 4 % 2 * 8, first + of_unit};
}

// Strips: a lane has 32 columns of the matrix, and of these all rows, one after the other. So its part of a vector
// stays in registers, and the sums of a row are added up over the lanes once the row is decoded.
inline constexpr int kLaneCols = 32, kStripCols = kLanes * kLaneCols;
inline constexpr datasets::Shape strips_shape(datasets::Shape shape) {
  return {(shape.cols + kStripCols - 1) / kStripCols * kLanes, shape.rows * kLaneCols};
}
inline constexpr ElementPlace place_of_strip(int64_t row, int64_t col) {
  return {col / kLaneCols, row * kLaneCols + col % kLaneCols};
}

// The shape of the stored matrix for a matrix of `shape`.
inline constexpr datasets::Shape stored_shape(datasets::Shape shape, Layout layout) {
  return layout == Layout::fragments ? fragments_shape(shape) : layout == Layout::strips ? strips_shape(shape) : shape;
}
inline datasets::Shape stored_shape(const CompressedView& view) {
  return stored_shape(view.shape, header_of(view).layout);
}

}  // namespace ecmv::codecs::quad_huffman
