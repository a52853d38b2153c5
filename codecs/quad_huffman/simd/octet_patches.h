// Sorts the patches of a tile by octets, eight rows, so that they can be applied while those are decoded. Within an
// octet the order by columns stays.
#pragma once

#include <array>
#include <cstdint>

#include "backends/kernel.h"
#include "codecs/quad_huffman/format/stored.h"

namespace ecmv::codecs::quad_huffman {

struct DecodePolicy : backends::Policy {
  bool past_caches;  // results are not read soon: patches are applied in a buffer
};
inline constexpr DecodePolicy kDecodePolicies[] = {{{"past_caches"}, true}, {{"through_caches"}, false}};

struct OctetPatches {
  static constexpr int kCapacity = 4096;
  struct OfOctet {
    int count = 0;
    // A patch as it is stored; bit 16: it is in the tile's right half.
    std::array<uint32_t, kCapacity> patches;
    int row(int i) const { return static_cast<int>(patches[i] % 8); }
    int64_t col(int i) const { return patches[i] / kLanes % kPatchCols | (patches[i] >> 16) * kPatchCols; }
    bool takes(int i) const { return (patches[i] >> 15 & 1) != 0; }
  };
  std::array<OfOctet, kLanes / 8> of_octet;

  // Returns false if not all fit. Then they must be applied to the decoded elements.
  bool sort(const Stored& stored, int64_t tile) {
    for (OfOctet& octet : of_octet) octet.count = 0;
    const TileIndex index = stored.tile(tile);
    const int64_t count = stored.first_patch(tile + 1) - index.first_patch;
    if (count > kCapacity) return false;
    const uint8_t* patches = stored.patches + 2 * index.first_patch;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t patch = load_u16(patches + 2 * i);
      OfOctet& octet = of_octet[patch % kLanes / 8];
      octet.patches[octet.count++] = patch | (i < index.left_patches ? 0u : 1u << 16);
    }
    return true;
  }
};

}  // namespace ecmv::codecs::quad_huffman
