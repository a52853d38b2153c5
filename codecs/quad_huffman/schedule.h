// The schedule of a tile: when the lines of its codes are fetched, and where lagging lanes are moved to (format.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codecs/quad_huffman/format.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr int kMostSegments = kMostTileCols / (kSegmentSymbols * kLeastSymbolCols);

// Code bits of each segment, and where the segment's first one is.
struct LaneBits {
  std::array<int32_t, kMostSegments> bits{}, begin{};
};

// Lines fetched before segment s once `blocks` were.
inline int64_t reach_of(int64_t blocks, int64_t lines) {
  return blocks * kBlockLines < lines ? blocks * kBlockLines : lines;
}

// Fills `begin` of all lanes and blocks[segments]; returns the lines of the tile.
int64_t make_schedule(std::span<LaneBits, kLanes> lanes, std::span<uint8_t> blocks);

}  // namespace ecmv::codecs::quad_huffman
