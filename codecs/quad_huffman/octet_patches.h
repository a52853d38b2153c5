// The patches of a tile sorted by which eight rows they are for, so that they can be applied while those are decoded.
// Within eight rows the order by columns stays.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "codecs/quad_huffman/stored.h"

namespace ecmv::codecs::quad_huffman {

struct OctetPatches {
  static constexpr int kOctets = kLanes / 8, kCapacity = 4096;
  // column << 16 | row in the octet << 8 | delta as a byte
  std::array<uint32_t, kCapacity> patches;
  std::array<int, kOctets + 1> begin{};

  // False if there are more than fit; they then must be applied to what was decoded.
  bool sort(const Stored& stored, int64_t tile) {
    begin.fill(0);
    const TileIndex index = stored.tile(tile);
    const int64_t first = index.first_patch, count = stored.first_patch(tile + 1) - first;
    if (count > kCapacity) return false;
    for (int64_t i = 0; i < count; ++i) ++begin[stored.patches[2 * (first + i)] % kLanes / 8 + 1];
    for (int octet = 0; octet < kOctets; ++octet) begin[octet + 1] += begin[octet];
    std::array<int, kOctets> next;
    std::copy_n(begin.begin(), kOctets, next.begin());
    for (int64_t i = 0; i < count; ++i) {
      const Patch patch = stored.patch(index, first + i);
      patches[next[patch.row / 8]++] = static_cast<uint32_t>(patch.col) << 16 |
                                       static_cast<uint32_t>(patch.row % 8) << 8 | static_cast<uint8_t>(patch.delta);
    }
    return true;
  }
};

}  // namespace ecmv::codecs::quad_huffman
