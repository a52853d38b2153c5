// The schedule of a tile: when the lines of its codes are fetched, and where lagging lanes are moved to (FORMAT.md).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codecs/quad_huffman/format/layout.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr int kMostSegments = kMostTileCols / (kSegmentSymbols * kLeastSymbolCols);

// The code bits of each segment, and the position of its first one.
struct LaneBits {
  std::array<int32_t, kMostSegments> bits{}, begin{};
};

// The lines that are fetched once `blocks` blocks were.
inline int64_t reach_of(int64_t blocks, int64_t lines) {
  return blocks * kBlockLines < lines ? blocks * kBlockLines : lines;
}

// Fills reach[0, segments): the lines that are there before each segment of a tile, by its bytes of the schedule.
inline void reach_of_segments(const uint8_t* schedule, int64_t segments, int64_t lines, int64_t* reach) {
  int64_t blocks = 0;
  for (int64_t s = 0; s < segments; ++s) reach[s] = reach_of(blocks += schedule[s], lines);
}
// The least position that a lane may have before segment s.
inline int64_t least_position(const int64_t* reach, int64_t s, int64_t segments) {
  return 32 * (reach[s + kAhead < segments ? s + kAhead : segments - 1] - kRingLines);
}

// Fills `begin` of all lanes and blocks[segments]; returns the lines of the tile.
int64_t make_schedule(std::span<LaneBits, kLanes> lanes, std::span<uint8_t> blocks);

}  // namespace ecmv::codecs::quad_huffman
