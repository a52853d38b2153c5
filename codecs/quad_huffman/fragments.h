// The layout of fragments: which element of a matrix is where in the one that is stored in its place. Matrix units take A
// [16, 16] from 32 lanes, each of which has eight elements of it. So a lane decodes just those: 16 rows and 16 columns of
// the matrix are a row of eight columns for each of 32 lanes (a fragment is what such a lane has), and what a lane has
// decoded is its operand as it is. Lane 4 g + t has four columns of row g, and then those of row g + 8. Of numbers of bf16 these are
// columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: what the units take, so that tokens stay in the order that they have in memory, and are
// copied to shared memory as they are. Of int8 elements, which are multiplied as bytes, they are 4 t to 4 t + 3, and so they were of
// all elements before version 7.
#pragma once

#include <cstdint>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format.h"
#include "datasets/matrix.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr int kUnitRows = 16, kUnitCols = 16, kFragmentCols = 8;

// The shape of the stored matrix for one of `shape`: whole units.
inline constexpr datasets::Shape fragments_shape(datasets::Shape shape) {
  return {(shape.rows + kUnitRows - 1) / kUnitRows * kLanes, (shape.cols + kUnitCols - 1) / kUnitCols * kFragmentCols};
}

// Whether a stream that is not plain has the layout, and the shape of what is stored.
inline bool is_fragments(const CompressedView& view) {
  return (std::to_integer<int>(view.sections[kHeader].host[4]) & kFragments) != 0;
}

// How many columns of a fragment follow each other in the matrix.
enum class FragmentRuns { fours = 4, pairs = 2 };
inline constexpr FragmentRuns runs_of(datasets::ElementType type) {
  return type == datasets::ElementType::i8 ? FragmentRuns::fours : FragmentRuns::pairs;
}

// Of the element of the matrix that is at `row`, `col` of the stored one.
struct ElementPlace {
  int64_t row, col;
};
inline constexpr ElementPlace place_of_fragment(int64_t row, int64_t col, FragmentRuns runs) {
  const int64_t lane = row % kLanes, first = col / kFragmentCols * kUnitCols,
                of_unit =
                    runs == FragmentRuns::fours ? lane % 4 * 4 + col % 4 : col / 2 % 2 * 8 + lane % 4 * 2 + col % 2;
  return {row / kLanes * kUnitRows + lane / 4 + col / 4 % 2 * 8, first + of_unit};
}

// The stored matrix, row-major. Units that are not whole repeat the matrix's last row and column, which are coded as well as
// any; products meet them with zeros, so that what is infinite or none is replaced.
std::vector<std::byte> to_fragments(datasets::MatrixView matrix);

}  // namespace ecmv::codecs::quad_huffman
