// Patches: what corrects elements whose symbol has no code (FORMAT.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codecs/quad_huffman/format/layout.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr int kPatchCols = 1024;  // what a patch of int8 has bits for
inline constexpr int kPatchWordBytes =
    4;  // of a patch of floats; a byte with its sign and mantissa follows all of these
inline constexpr int patch_bytes(Form form) { return form.floats ? kPatchWordBytes + 1 : 2; }

// The element of a tile that a patch corrects, and by how much.
struct Patch {
  int row, col, delta;
};
// Floats: the exponent that the element has, and the coded one.
struct StoredPatch {
  int row, col, exponent, substitute;
};

// Patches of strips, eight to a packet, twelve bits each, the first one's lowest. They are in the order of their
// places, which are kStripCols times the tile's row of the matrix and the column of the strip; a patch says how far it
// is from the one before.
inline constexpr int kPacketPatches = 8, kPacketWords = 3, kPacketBytes = 4 * kPacketWords, kPlacedPatchBits = 12;
static_assert(kPacketPatches * kPlacedPatchBits == 8 * kPacketBytes);
// The distance of what only moves on: it fills the last packet, and leads to patches that are farther away.
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
// Calls f(patch, its place) for those of packets `first` to `end`, which are a tile's.
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

// Places that a tile of so many stored columns has, and how many of its patches may only move on, at most.
inline constexpr int64_t tile_places(int64_t tile_cols) { return tile_cols / kLaneCols * kStripCols; }
inline constexpr int64_t most_moving_patches(int64_t tile_cols) {
  return tile_places(tile_cols) / kNoPatchDistance + kPacketPatches;
}

}  // namespace ecmv::codecs::quad_huffman
