// The layout of strips: a lane has 32 columns of the matrix, and all rows of those one after the other. So what a lane needs of a
// vector stays in its registers from row to row, and the sums of a row are added up over the lanes once it is decoded.
#pragma once

#include <cstdint>
#include <span>
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

// Patches of strips lie eight to a packet, twelve bits each, the first one's lowest. They are in the order of their places, which are
// kStripCols times the tile's row of the matrix and the column of the strip; a patch says how far it is from the one before.
inline constexpr int kPacketPatches = 8, kPacketWords = 3, kPacketBytes = 4 * kPacketWords, kPlacedPatchBits = 12;
static_assert(kPacketPatches * kPlacedPatchBits == 8 * kPacketBytes);
// The distance of what only moves on: what fills the last packet, and leads to patches that are farther away.
inline constexpr int kNoPatchDistance = (1 << (kPlacedPatchBits - 1)) - 1;
struct PlacedPatch {
  int distance;
  bool takes;  // one from h; else it adds one
  bool is_there() const { return distance != kNoPatchDistance; }
  int bits() const { return distance << 1 | (takes ? 1 : 0); }
};
inline PlacedPatch placed_patch(const uint8_t* packet, int i) {
  const uint8_t* at = packet + kPlacedPatchBits * i / 8;
  const int bits = (at[0] | at[1] << 8) >> (kPlacedPatchBits * i % 8) & ((1 << kPlacedPatchBits) - 1);
  return {bits >> 1, (bits & 1) != 0};
}
// Places that a tile of so many stored columns has.
inline constexpr int64_t tile_places(int64_t tile_cols) { return tile_cols / kLaneCols * kStripCols; }
// Of a tile, how many may only move on, at most.
inline constexpr int64_t most_moving_patches(int64_t tile_cols) {
  return tile_places(tile_cols) / kNoPatchDistance + kPacketPatches;
}

// Appends the packets of patches in the order of their places; each is twice the place, and one more where it takes. Returns how many.
int64_t append_packets(std::span<const uint32_t> patches, std::vector<std::byte>& to);

// The stored matrix, row-major. Strips that are not whole repeat the matrix's last column, which is coded as well as any.
std::vector<std::byte> to_strips(datasets::MatrixView matrix);

}  // namespace ecmv::codecs::quad_huffman
