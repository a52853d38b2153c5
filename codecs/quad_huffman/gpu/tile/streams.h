// What lane groups read: the sections of a matrix, and a table in shared memory.
#pragma once

#include <cstdint>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/bits.h"
#include "backends/gpu/lanes.h"
#include "backends/gpu/memory.h"
#include "codecs/quad_huffman/format/layout.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;
using LaneGroup = gpu::Lanes<kLanes>;

struct Streams {
  gpu::Pointer<const gpu::uint4> tiles;
  gpu::Pointer<const uint8_t> schedule;
  gpu::Pointer<const std::byte> codes;
  gpu::Pointer<const std::byte> raw;
  gpu::Pointer<const uint16_t> patches;
  // A byte for each patch of floats. A pointer, because a kernel that derived it from their number would keep that in
  // registers.
  gpu::Pointer<const uint8_t> signs;
  int64_t patch_count;
  int64_t raw_row_bytes;  // a row group's raw bits
  int row_segments, tile_segments;
};

inline constexpr int kRingBits = 32 * kRingLines;

// Constants that the compiler must not know. The bytes of a ring's line for one bit of a lane: nvcc would make three
// instructions of an address instead of two. And a zero, which makes one thing wait for another that it does not depend
// on.
struct Hidden {
  int line_bytes_of_bit = kLineBytes / 32;
  uint32_t zero = 0;
  int ring_bits = 0;         // kRingBits + log2 of Table::distance; adding the two in a kernel spilled a register
  uint32_t nibble_bits = 4;  // a factor of rotations, for the multiplier
  // Multiplier of bf16 exponents in quads. Multiplied, because a shift would go to the busier ALU.
  uint32_t exponent_unit = 16;
};

// This lane's copy of a table, and a mask of entries' distances in bytes. Where a window has the next code's first bit
// where the mask begins, one operation masks it and moves it to this lane's copy. The base is the same for all lanes,
// so nvcc 13 makes it a part of the load. Other windows are multiplied first.
struct Table {
  gpu::Pointer<const std::byte> bytes;
  uint32_t mask, distance, lane;

  ECMV_GPU_DEVICE uint32_t at_shifted(uint32_t window) const {
    return *gpu::cast<const uint32_t>(bytes + static_cast<int>((window & mask) | lane));
  }
  // Looks up rotated entries in a table with kCopies copies, for a window that begins with the code: its first
  // kRotationBits bits, times four as SHF wants them, and the entry by the bits after them. With 8 copies that is where
  // the look-up wants them, too; with 2 they are there as they are.
  template <int kCopies>
  ECMV_GPU_DEVICE uint32_t at_rotated(uint32_t window, const Hidden& hidden, uint32_t& rotation) const {
    static_assert(kCopies == 2 || kCopies == 8);
    rotation = window * hidden.nibble_bits;
    return at_shifted(kCopies == 8 ? rotation : window);
  }
  ECMV_GPU_DEVICE uint32_t operator[](uint32_t window) const { return at_shifted(window * distance); }
};

// The next 64 bits of a lane's codes, from its position on, which may be a few bits early. First and last bits may
// belong to a line that is not in the ring any more, or not yet: they are not used then.
struct Windows {
  uint32_t first, second;
};
ECMV_GPU_DEVICE Windows windows_of(const gpu::SharedWords& ring, uint32_t position, const Hidden& hidden) {
  const int line = static_cast<int>(position & (32 * (kRingLines - 1))) * hidden.line_bytes_of_bit;
  const uint32_t middle = ring.at<kLineBytes>(line);
  return {gpu::funnel_shift_right(ring.arriving_at<0>(line), middle, position),
          gpu::funnel_shift_right(middle, ring.arriving_at<2 * kLineBytes>(line), position)};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
