// The layout of strips: a lane has 32 columns of the matrix, and all rows of those one after the other. So what a lane needs of a
// vector stays in its registers from row to row, and the sums of a row are added up over the lanes once it is decoded.
#pragma once

#include <cstdint>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format.h"
#include "codecs/quad_huffman/fragments.h"
#include "datasets/matrix.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr int kLaneCols = 32, kStripCols = kLanes * kLaneCols;

// The shape of the stored matrix for one of `shape`: whole strips.
inline constexpr datasets::Shape strips_shape(datasets::Shape shape) {
  return {(shape.cols + kStripCols - 1) / kStripCols * kLanes, shape.rows * kLaneCols};
}
inline bool is_strips(const CompressedView& view) {
  return (std::to_integer<int>(view.sections[kHeader].host[5]) & kStrips) != 0;
}
inline bool is_rotated(const CompressedView& view) {
  return is_strips(view) && (std::to_integer<int>(view.sections[kHeader].host[5]) & kRotated) != 0;
}
inline datasets::Shape stored_shape(const CompressedView& view) {
  return is_fragments(view) ? fragments_shape(view.shape) : is_strips(view) ? strips_shape(view.shape) : view.shape;
}
// Of the element of the matrix that is at `row`, `col` of the stored one.
inline constexpr ElementPlace place_of_strip(int64_t row, int64_t col) {
  return {col / kLaneCols, row * kLaneCols + col % kLaneCols};
}

// A patch: which of a tile's rows of the matrix, and which column of the strip's.
inline constexpr uint32_t strip_patch(uint32_t row, uint32_t col) { return row * kStripCols + col; }
static_assert(strip_patch(kMostTileCols / kLaneCols - 1, kStripCols - 1) == UINT16_MAX);

// The stored matrix, row-major. Strips that are not whole repeat the matrix's last column, which is coded as well as any.
std::vector<std::byte> to_strips(datasets::MatrixView matrix);

}  // namespace ecmv::codecs::quad_huffman
