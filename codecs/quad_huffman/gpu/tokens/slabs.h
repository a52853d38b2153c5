// Decoded fragments on their way from lane groups that decode to lane groups that multiply (fragment_slabs.cu). Four
// units of a lane group are a slab in shared memory: 16 rows of 64 numbers of bf16, in parts of 16 bytes that change
// places from row to row as those of tokens do (backends/gpu/products/warpgroup_units.h). Four slabs, 64 rows, are
// operand A of four products.
//
// Lane 4 g + t decodes numbers of rows g and g + 8. Its numbers of two units lie together, so it writes 16 bytes at a
// time. That changes the order of columns, and tokens' columns change it likewise (SlabOrder).
#pragma once

#include "backends/gpu/gate.h"
#include "backends/gpu/products/warpgroup_units.h"
#include "codecs/quad_huffman/gpu/tile/floats.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

inline constexpr int kSlabUnits = gpu::kUnitsOfBlock, kSlabBytes = kUnitRows * gpu::kBlockTokenBytes;
ECMV_GPU_DEVICE int slab_part(int row, int part) { return row * gpu::kBlockTokenBytes + (part ^ (row & 7)) * 16; }

// Where a pair of columns of a block of 64 lies, for arrange_tokens().
struct SlabOrder {
  static ECMV_GPU_DEVICE int unit_pair(int pair) {
    const int unit = pair / 8, half = pair / 4 % 2, t = pair % 4;
    return (unit / 2 * 4 + t) * 4 + unit % 2 * 2 + half;
  }
};

// `numbers`: this lane's part of operand A of each unit.
ECMV_GPU_DEVICE void store_slab(gpu::Pointer<std::byte> slab, const gpu::uint4 (&numbers)[kSlabUnits]) {
  static_assert(kSlabUnits == 4);
  const int g = LaneGroup::lane() / 4, t = LaneGroup::lane() % 4;
  // Lanes of neighbouring rows write different halves of a row at once, and so different banks.
  const bool odd = (g & 1) != 0;
  ECMV_GPU_UNROLL
  for (int i = 0; i < 2; ++i) {
    const bool lower = (i == 0) != odd;
    const auto of = [&](uint32_t low, uint32_t high) { return lower ? low : high; };
    const int part = (lower ? 0 : 4) + t;
    *gpu::cast<gpu::uint4>(slab + slab_part(g, part)) =
        gpu::uint4{of(numbers[0].x, numbers[2].x), of(numbers[0].z, numbers[2].z), of(numbers[1].x, numbers[3].x),
                   of(numbers[1].z, numbers[3].z)};
    *gpu::cast<gpu::uint4>(slab + slab_part(g + 8, part)) =
        gpu::uint4{of(numbers[0].y, numbers[2].y), of(numbers[0].w, numbers[2].w), of(numbers[1].y, numbers[3].y),
                   of(numbers[1].w, numbers[3].w)};
  }
}

// A tile's patches, 64 at a time in the order of columns, two a lane. A lane writes the numbers of its own over those
// of the slab that has their columns, so patches cost the same for any number of tokens.
template <typename TileOf>
class SlabPatches {
 public:
  // All lanes of the lane group call these.
  ECMV_GPU_DEVICE void read(const TileOf& tile, int power, uint32_t first) {
    first_ = first;
    tile.read_patches(first, [&](int k, bool has, const PatchWord& patch, uint32_t sign) {
      const int unit = patch.col / kFragmentCols, of_slab = unit % kSlabUnits, c = patch.col % kFragmentCols,
                row = patch.row / 4 + c / 4 * 8,
                place = slab_part(row, of_slab / 2 * 4 + patch.row % 4) + of_slab % 2 * 8 + c % 4 * 2;
      places_[k] = has ? static_cast<uint32_t>(unit / kSlabUnits) << 16 | static_cast<uint32_t>(place) : kNone;
      numbers_[k] = patch_numbers<TileOf>(patch, sign, power).gains;
    });
    last_ = tile.patch_count() - first > kMost ? LaneGroup::pick(places_[1], kLanes - 1) >> 16 : kNone;
  }
  // Slab number `slab` of the tile lies at `at`, and all lanes have written it.
  ECMV_GPU_DEVICE void apply(const TileOf& tile, int power, int slab, gpu::Pointer<std::byte> at) {
    for (;;) {
      ECMV_GPU_UNROLL
      for (int k = 0; k < 2; ++k)
        if (static_cast<int>(places_[k] >> 16) == slab)
          *gpu::cast<uint16_t>(at + static_cast<int>(places_[k] & 0xFFFF)) = static_cast<uint16_t>(numbers_[k]);
      if (last_ > static_cast<uint32_t>(slab)) return;
      read(tile, power, first_ + kMost);
    }
  }

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF, kMost = 2 * kLanes;
  uint32_t places_[2], numbers_[2];    // the slab in the upper half, and the byte in it
  uint32_t first_ = 0, last_ = kNone;  // number of the first one; the slab of the last, if more follow
};

// Places for the slabs of four lane groups, used in turn, with a gate each for slabs that are there and for places that
// are free again.
template <int kSlots>
class SlabSlots {
 public:
  static constexpr int kGatesBytes = 2 * kSlots * gpu::kGateBytes, kSlotBytes = gpu::kWarpgroup * kSlabBytes,
                       kBytes = kSlots * kSlotBytes;
  ECMV_GPU_DEVICE SlabSlots(gpu::Pointer<std::byte> gates, gpu::Pointer<std::byte> places)
      : gates_(gates), places_(places) {}
  // One thread calls it, before a barrier of the block.
  ECMV_GPU_DEVICE void init() const {
    for (int i = 0; i < 2 * kSlots; ++i) gpu::Gate(gates_ + i * gpu::kGateBytes).init(gpu::kWarpgroup);
  }
  // Of the slabs that come as number `i`. A lane group that decodes waits until the place is free; four arrive when
  // they have written, and four when they have multiplied.
  ECMV_GPU_DEVICE void wait_free(int i) const {
    if (i >= kSlots) gate(kSlots + i % kSlots).wait((i / kSlots - 1) & 1);
  }
  ECMV_GPU_DEVICE void wait_there(int i) const { gate(i % kSlots).wait(i / kSlots & 1); }
  ECMV_GPU_DEVICE void written(int i) const { gate(i % kSlots).arrive(); }
  ECMV_GPU_DEVICE void multiplied(int i) const { gate(kSlots + i % kSlots).arrive(); }
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> place(int i) const { return places_ + i % kSlots * kSlotBytes; }

 private:
  gpu::Pointer<std::byte> gates_, places_;
  ECMV_GPU_DEVICE gpu::Gate gate(int number) const { return gpu::Gate(gates_ + number * gpu::kGateBytes); }
};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
