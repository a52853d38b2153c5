// Patches of strips: packets of eight, a lane each. What a patch says is how far it is from the one before, so lanes first add up theirs. Of
// a tile's first 256 patches that is done while x is not there yet: a tile of 64 rows has 130 to 180. (With 128 of two bytes loaded so early
// the others were waited for; all of it done once x was there cost 1 to 2 us of 32 a layer: H200, 16384 x 16384, sigma 1.)
#pragma once

#include "backends/gpu/bits.h"
#include "backends/gpu/lanes.h"
#include "codecs/quad_huffman/strips.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

struct Packet {
  uint32_t words[kPacketWords];
};

// This lane's of 32 packets from number `first` of `count` of a tile on, whose own first one is number `of_tile` at `patches`. What only moves
// on where it has none.
ECMV_GPU_DEVICE Packet load_packet(gpu::Pointer<const uint16_t> patches, uint32_t of_tile, uint32_t first,
                                   uint32_t count) {
  const uint32_t own = first + static_cast<uint32_t>(gpu::Lanes<kLanes>::lane());
  const gpu::Pointer<const uint32_t> words =
      gpu::cast<const uint32_t>(patches) + kPacketWords * (static_cast<int64_t>(of_tile) + own);
  Packet packet;
  ECMV_GPU_UNROLL
  for (int i = 0; i < kPacketWords; ++i) packet.words[i] = own < count ? words[i] : 0xFFFFFFFFu;
  return packet;
}

// Of a packet, where its patches are.
struct PlacedPatches {
  uint32_t places[kPacketPatches / 2];  // halves, the first one's lower
  uint32_t flags;                       // bit k: whether number k is there; bit 8 + k: whether it takes

  // Of the 32 packets, in all lanes; no place of a patch that is there is beyond 16 bits.
  ECMV_GPU_DEVICE uint32_t end() const {
    return gpu::Lanes<kLanes>::pick(places[kPacketPatches / 2 - 1] >> 16, kLanes - 1);
  }
};
// `before`: where the 32 packets begin.
ECMV_GPU_DEVICE PlacedPatches placed_patches(Packet packet, uint32_t before) {
  static_assert(kPacketPatches == 8 && kPlacedPatchBits == 12);
  constexpr uint32_t kMask = (1u << kPlacedPatchBits) - 1;
  const auto& [a, b, c] = packet.words;
  const uint32_t bits[kPacketPatches] = {a,      a >> 12, gpu::funnel_shift_right(a, b, 24u),
                                         b >> 4, b >> 16, gpu::funnel_shift_right(b, c, 28u),
                                         c >> 8, c >> 20};
  PlacedPatches placed{};
  uint32_t place = 0;
  ECMV_GPU_UNROLL
  for (int k = 0; k < kPacketPatches; ++k) {
    const uint32_t distance = (bits[k] & kMask) >> 1;
    place += distance;
    placed.places[k / 2] |= (place & 0xFFFF) << (16 * (k % 2));
    placed.flags |= (distance != kNoPatchDistance ? 1u : 0u) << k | (bits[k] & 1) << (8 + k);
  }
  before += gpu::Lanes<kLanes>::prefix_add(place);
  ECMV_GPU_UNROLL
  for (int k = 0; k < kPacketPatches / 2; ++k) {
    const uint32_t low = (placed.places[k] + before) & 0xFFFF;
    placed.places[k] = ((placed.places[k] & 0xFFFF0000u) + (before << 16)) | low;
  }
  return placed;
}
template <typename F>
ECMV_GPU_DEVICE void visit_placed(const PlacedPatches& placed, F f) {
  ECMV_GPU_UNROLL
  for (int k = 0; k < kPacketPatches; ++k)
    if ((placed.flags >> k & 1) != 0)
      f(k % 2 == 0 ? placed.places[k / 2] & 0xFFFF : placed.places[k / 2] >> 16, (placed.flags >> (8 + k) & 1) != 0);
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
