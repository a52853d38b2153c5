// The patches of a tile, 32 lanes at a time: each lane its own (for_each_patch), all lanes together (deal_patches), or
// in the order of columns while the tile is decoded (PatchWalk).
//
// Patches of strips come in packets of eight, a lane each. A patch says how far it is from the one before, so lanes
// first add up theirs. That happens for a tile's first 256 patches while x is not there yet: a tile of 64 rows has 130
// to 180. (With 128 of two bytes loaded so early the others were waited for; all of it done once x was there cost 1 to
// 2 us of 32 a layer: H200, 16384 x 16384, sigma 1.)
#pragma once

#include <type_traits>

#include "backends/gpu/bits.h"
#include "backends/gpu/lanes.h"
#include "codecs/quad_huffman/format/patches.h"
#include "codecs/quad_huffman/gpu/tile/streams.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

struct Packet {
  uint32_t words[kPacketWords];
};

// This lane's packet of 32, from number `first` of `count` of a tile on; the tile's first packet is number `of_tile` at
// `patches`. Where there is none, the packet only moves on.
ECMV_GPU_DEVICE Packet load_packet(gpu::Pointer<const uint16_t> patches, uint32_t of_tile, uint32_t first,
                                   uint32_t count) {
  const uint32_t own = first + static_cast<uint32_t>(LaneGroup::lane());
  const gpu::Pointer<const uint32_t> words =
      gpu::cast<const uint32_t>(patches) + kPacketWords * (static_cast<int64_t>(of_tile) + own);
  Packet packet;
  ECMV_GPU_UNROLL
  for (int i = 0; i < kPacketWords; ++i) packet.words[i] = own < count ? words[i] : 0xFFFFFFFFu;
  return packet;
}

// The places of a packet's patches.
struct PlacedPatches {
  uint32_t places[kPacketPatches / 2];  // halves, the first one's lower
  uint32_t flags;                       // bit k: whether number k is there; bit 8 + k: whether it takes

  // The end of the 32 packets, in all lanes; no place of an existing patch needs more than 16 bits.
  ECMV_GPU_DEVICE uint32_t end() const { return LaneGroup::pick(places[kPacketPatches / 2 - 1] >> 16, kLanes - 1); }
};
// `before` is where the 32 packets begin.
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
  before += LaneGroup::prefix_add(place);
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

// A tile's patches in the order of their columns: 32 at a time, a lane each, and the 32 after them.
inline constexpr int kNoCol = 1 << 20;
struct PatchWalk {
  uint32_t first = 0;                    // number of the first of the 32
  uint32_t patch = 0, ahead = 0;         // this lane's
  int col = kNoCol;                      // its column in the tile, kNoCol once it is applied
  int applied = 0;                       // how many of the 32
  bool is_first = true, is_last = true;  // among its element's patches
};
ECMV_GPU_DEVICE int patch_row(uint32_t patch) { return static_cast<int>(patch % kLanes); }

// An element's place, its exponent, and the exponent that is coded in its place.
struct PatchWord {
  int row, col;
  uint32_t exponent, substitute;
};
ECMV_GPU_DEVICE PatchWord patch_word(uint32_t bits) {
  return {static_cast<int>(bits % kLanes), static_cast<int>(bits / kLanes % kMostTileCols), bits >> 16 & 255,
          bits >> 24};
}

// Prefetches patches of floats and their signs to the L2, except for the bytes after the section's last 16 whole ones.
ECMV_GPU_DEVICE void prefetch_patches(const Streams& streams, uint32_t first, uint32_t count) {
  if (LaneGroup::lane() != 0 || count == 0) return;
  const int64_t size = (kPatchWordBytes + 1) * streams.patch_count;
  const auto prefetch = [&](int64_t begin, int64_t end) {
    begin = begin / 16 * 16;
    end = end + 15 < size ? (end + 15) / 16 * 16 : size / 16 * 16;
    if (begin < end)
      gpu::prefetch_l2(gpu::cast<const std::byte>(streams.patches) + begin, static_cast<int>(end - begin));
  };
  const int64_t from = first, to = from + count, signs = kPatchWordBytes * streams.patch_count;
  prefetch(kPatchWordBytes * from, kPatchWordBytes * to);
  prefetch(signs + from, signs + to);
}

// kCellBits: log2 of the width of a cell, which a patch of int8 elements adds or takes. kPlaced: patches of strips.
template <bool kFloats, int kCellBits, bool kPlaced>
class TilePatches {
 public:
  // Holds some patches a lane, and signs and mantissas of their elements where these are floats.
  template <int kCount, typename Bits = uint32_t>
  struct Batch {
    Bits bits[kCount];
    uint32_t sign[kCount];
  };
  using StoredBits = std::conditional_t<kFloats, uint32_t, uint16_t>;

  // Calls f for this lane's patches. int8: f(row, column of the tile, amount to add to the element), one cell each; an
  // element may have several. Floats: f(patch, sign and mantissa of its element: a byte). The first patches of int8
  // elements have been loaded since begin(); later ones come as many at once, because one at a time would be waited
  // for.
  template <typename F>
  ECMV_GPU_DEVICE void for_each_patch(F f) const {
    uint32_t first = 0;
    if constexpr (!kFloats) {
      ECMV_GPU_UNROLL
      for (int k = 0; k < kPatchesAhead; ++k)
        if (patch_of(k) < count_) visit(patch_of(k), ahead_[k], 0, f);
      first = kPatchesAhead * kLanes;
    }
    ECMV_GPU_NO_UNROLL
    for (; first < count_; first += kPatchesAhead * kLanes) {
      const auto batch = load<kPatchesAhead>(first);
      ECMV_GPU_UNROLL
      for (int k = 0; k < kPatchesAhead; ++k)
        if (first + patch_of(k) < count_) visit(first + patch_of(k), batch.bits[k], kFloats ? batch.sign[k] : 0, f);
    }
  }
  // The same in all lanes at once: f(whether this lane has one, ...). Later patches of int8 elements are loaded while
  // earlier ones are in use.
  template <typename F>
  ECMV_GPU_DEVICE void deal_patches(F f) const {
    const uint32_t count = patch_count();
    uint32_t ahead[kPatchesAhead];
    if constexpr (!kFloats) {
      ECMV_GPU_UNROLL
      for (int k = 0; k < kPatchesAhead; ++k) ahead[k] = patch_of(k) < count ? ahead_[k] : 0u;
    }
    ECMV_GPU_NO_UNROLL
    for (uint32_t first = 0; first < count; first += kPatchesAhead * kLanes) {
      Batch<kPatchesAhead> batch;
      if constexpr (kFloats) {
        batch = load<kPatchesAhead>(first);
      } else {
        ECMV_GPU_UNROLL
        for (int k = 0; k < kPatchesAhead; ++k) {
          batch.bits[k] = ahead[k];
          if (const uint32_t next = first + kPatchesAhead * kLanes + patch_of(k); next < count)
            ahead[k] = patches_[first_ + next];
        }
      }
      ECMV_GPU_NO_UNROLL
      for (int k = 0; k < kPatchesAhead && static_cast<uint32_t>(k * kLanes) < count - first; ++k) {
        const uint32_t i = first + patch_of(k), bits = gpu::picked(batch.bits, k);
        if constexpr (kFloats)
          f(i < count, patch_word(bits), gpu::picked(batch.sign, k));
        else
          f(i < count, patch_row(bits), patch_col(i, bits), patch_change(bits));
      }
    }
  }
  // Visits twice 32 patches of floats from number `first` on: f(0 or 1, whether this lane has one, ...).
  template <typename F>
  ECMV_GPU_DEVICE void read_patches(uint32_t first, F f) const {
    const auto batch = load<2>(first);
    ECMV_GPU_UNROLL
    for (int k = 0; k < 2; ++k) f(k, first + patch_of(k) < count_, patch_word(batch.bits[k]), batch.sign[k]);
  }
  ECMV_GPU_DEVICE uint32_t patch_count() const {
    return static_cast<uint32_t>(LaneGroup::uniform(static_cast<int32_t>(count_)));
  }

  // For a tile of strips, between begin() and for_each_placed_patch(): the work that needs no vector.
  ECMV_GPU_DEVICE void place_patches() { placed_ = placed_patches(packet_, 0); }
  // Calls f(place in the tile, whether one is taken) for the patches of such a tile.
  template <typename F>
  ECMV_GPU_DEVICE void for_each_placed_patch(F f) const {
    visit_placed(placed_, f);
    const uint32_t count = patch_count();
    PlacedPatches placed = placed_;
    ECMV_GPU_NO_UNROLL
    for (uint32_t first = kLanes; first < count; first += kLanes) {
      placed = placed_patches(load_packet(patches_, first_, first, count), placed.end());
      visit_placed(placed, f);
    }
  }
  ECMV_GPU_DEVICE PatchWalk patch_walk() const {
    PatchWalk walk;
    walk.patch = patch_bits(static_cast<uint32_t>(LaneGroup::lane()));
    begin_patches(walk, kNoPatch);
    return walk;
  }
  // Applies the patches of columns before `end_col` of the tile: f(row, column of the tile, amount to add to an int8
  // element, or the exponent).
  template <typename F>
  ECMV_GPU_DEVICE void apply_patches(PatchWalk& walk, int end_col, F f) const {
    for (;;) {
      const bool applies = walk.col < end_col;
      const int count = gpu::popcount(LaneGroup::ballot(applies));
      if (applies) {
        const int row = static_cast<int>(walk.patch % kLanes);
        if constexpr (kFloats) {
          f(row, walk.col, static_cast<int>(walk.patch >> 16 & 255));
        } else if (walk.is_first) {
          int cells = walk.patch >> 15 != 0 ? -1 : 1;
          if (!walk.is_last) cells = cells_of_element(walk.first + static_cast<uint32_t>(LaneGroup::lane()));
          f(row, walk.col, cells * (1 << kCellBits));
        }
        walk.col = kNoCol;
      }
      walk.applied += count;
      if (walk.applied < kLanes) return;
      const uint32_t before = LaneGroup::shuffle(walk.patch, kLanes - 1);
      walk.first += kLanes;
      walk.applied = 0;
      walk.patch = walk.ahead;
      begin_patches(walk, before);
    }
  }

 protected:
  ECMV_GPU_DEVICE void set_patches(const Streams& streams, uint32_t first, uint32_t left, uint32_t count) {
    patches_ = streams.patches;
    if constexpr (kFloats) signs_ = streams.signs;
    first_ = first, left_ = left, count_ = count;
  }
  ECMV_GPU_DEVICE void load_first_patches() {
    if constexpr (kPlaced) {
      packet_ = load_packet(patches_, first_, 0, count_);
    } else if constexpr (!kFloats) {
      ECMV_GPU_UNROLL
      for (int k = 0; k < kPatchesAhead; ++k)
        if (patch_of(k) < count_) ahead_[k] = patches_[first_ + patch_of(k)];
    }
  }
  ECMV_GPU_DEVICE void prefetch_own_patches(const Streams& streams) const {
    if constexpr (kFloats) prefetch_patches(streams, first_, count_);
  }

 private:
  static constexpr uint32_t kNoPatch = 0xFFFFFFFF;
  static constexpr int kPatchesAhead = 4;

  ECMV_GPU_DEVICE static uint32_t patch_of(int k) { return static_cast<uint32_t>(k * kLanes + LaneGroup::lane()); }
  ECMV_GPU_DEVICE static int patch_change(uint32_t patch) {
    return patch >> 15 != 0 ? -(1 << kCellBits) : 1 << kCellBits;
  }
  ECMV_GPU_DEVICE int patch_col(uint32_t i, uint32_t patch) const {
    if constexpr (kFloats) return static_cast<int>(patch / kLanes % kMostTileCols);
    return (i < left_ ? 0 : kPatchCols) + static_cast<int>(patch / kLanes % kPatchCols);
  }
  template <typename F>
  ECMV_GPU_DEVICE void visit(uint32_t i, uint32_t bits, uint32_t sign, F f) const {
    if constexpr (kFloats)
      f(patch_word(bits), sign);
    else
      f(patch_row(bits), patch_col(i, bits), patch_change(bits));
  }
  // Loads from number `first` of the tile on.
  template <int kCount>
  ECMV_GPU_DEVICE Batch<kCount, StoredBits> load(uint32_t first) const {
    Batch<kCount, StoredBits> batch;
    ECMV_GPU_UNROLL
    for (int k = 0; k < kCount; ++k) {
      const uint32_t i = first + patch_of(k);
      if constexpr (kFloats) {
        const gpu::Pointer<const uint32_t> patches = gpu::cast<const uint32_t>(patches_) + first_;
        const gpu::Pointer<const uint8_t> signs = signs_ + first_;
        batch.bits[k] = i < count_ ? patches[i] : 0;
        batch.sign[k] = i < count_ ? signs[i] : 0;
      } else {
        if (i < count_) batch.bits[k] = patches_[first_ + i];
      }
    }
    return batch;
  }
  // kNoPatch where there is none.
  ECMV_GPU_DEVICE uint32_t patch_bits(uint32_t i) const {
    if (i >= count_) return kNoPatch;
    if constexpr (kFloats) return gpu::cast<const uint32_t>(patches_)[first_ + i];
    return patches_[first_ + i];
  }
  // The walk has come to walk.patch; `before` is the one before them.
  ECMV_GPU_DEVICE void begin_patches(PatchWalk& walk, uint32_t before) const {
    const int lane = LaneGroup::lane();
    const uint32_t i = walk.first + static_cast<uint32_t>(lane);
    walk.ahead = patch_bits(i + kLanes);
    walk.col = i < count_ ? patch_col(i, walk.patch) : kNoCol;
    if constexpr (!kFloats) {
      // Patches of an element, each one cell, follow each other.
      const uint32_t first_ahead = LaneGroup::shuffle(walk.ahead, 0);
      uint32_t left = LaneGroup::shuffle_up(walk.patch, 1), right = LaneGroup::shuffle_down(walk.patch, 1);
      if (lane == 0) left = before;
      if (lane == kLanes - 1) right = first_ahead;
      const auto same = [&](uint32_t other, bool same_half) {
        return other != kNoPatch && same_half && ((other ^ walk.patch) & 0x7FFF) == 0;
      };
      walk.is_first = !same(left, i != left_);
      walk.is_last = !same(right, i + 1 != left_);
    }
  }
  ECMV_GPU_DEVICE int cells_of_element(uint32_t first) const {
    const uint32_t patch = patch_bits(first);
    int cells = 0;
    for (uint32_t i = first; i < count_ && (i == first || i != left_); ++i) {
      const uint32_t other = patch_bits(i);
      if (((other ^ patch) & 0x7FFF) != 0) break;
      cells += other >> 15 != 0 ? -1 : 1;
    }
    return cells;
  }

  gpu::Pointer<const uint16_t> patches_;
  gpu::Pointer<const uint8_t> signs_;  // floats only
  uint32_t first_, left_, count_;      // the tile's patches; strips: packets
  uint16_t ahead_[kPatchesAhead];
  Packet packet_;  // strips, in place of patches
  PlacedPatches placed_;
};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
