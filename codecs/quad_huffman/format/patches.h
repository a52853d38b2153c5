// Patches correct elements whose symbol has no code (FORMAT.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codecs/quad_huffman/format/layout.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr int kPatchCols = 1024;  // columns that an int8 patch has bits for
inline constexpr int kPatchWordBytes =
    4;  // a float patch's word; its byte of sign and mantissa follows all of the words
inline constexpr int patch_bytes(Form form) { return form.floats ? kPatchWordBytes + 1 : 2; }

// A patch corrects this element of a tile by this much.
struct Patch {
  int row, col, delta;
};
// Floats: the exponent that the element has, and the coded one.
struct StoredPatch {
  int row, col, exponent, substitute;
};

// Patches of strips, eight to a packet, twelve bits each, the first one's lowest. They are in the order of their
// places: kStripCols times the tile's row of the matrix, plus the column of the strip. A patch says how far it is from
// the one before.
inline constexpr int kPacketPatches = 8, kPacketWords = 3, kPacketBytes = 4 * kPacketWords, kPlacedPatchBits = 12;
static_assert(kPacketPatches * kPlacedPatchBits == 8 * kPacketBytes);
// This distance only moves on. It fills the last packet and leads to patches that are farther away.
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
// Calls f(patch, its place) for the patches in packets `first` to `end`, a tile's.
template <class F>
void for_each_placed_patch(const uint8_t* packets, int64_t first, int64_t end, F f) {
  int64_t place = 0;
  for (int64_t i = first * kPacketPatches; i < end * kPacketPatches; ++i) {
    const PlacedPatch patch =
        placed_patch(packets + kPacketBytes * (i / kPacketPatches), static_cast<int>(i % kPacketPatches));
    place += patch.distance;
    if (patch.is_there()) f(patch, place);
  }
}

// Counts the places of a tile of so many stored columns, and its patches that may only move on, at most.
inline constexpr int64_t tile_places(int64_t tile_cols) { return tile_cols / kLaneCols * kStripCols; }
inline constexpr int64_t most_moving_patches(int64_t tile_cols) {
  return tile_places(tile_cols) / kNoPatchDistance + kPacketPatches;
}

}  // namespace ecmv::codecs::quad_huffman
