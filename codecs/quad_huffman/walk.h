// The scalar heart of the SIMD kernels: eight lanes of a tile walk through their codes together, one look-up each in
// turn. Everything is always inlined, so that each instruction set compiles it for itself (BMI2 shifts on AVX2 and up).
// Assumes a verified stream.
//
// The words of a lane are first copied together. A window holds a lane's next bits under a marker bit; the zeros above
// the marker tell how many bits of the 64 loaded at `next` were consumed, so a refill is seven operations. An entry of
// the kernels' own table has the code's length in bits 0..5, where a shift takes it without a mask, and the quad of
// high parts (model.h) in bits 16..31.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "backends/cpu/always_inline.h"
#include "codecs/modelling/marked_window.h"
#include "codecs/quad_huffman/stored.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr int kWalkLanes = 8;
// Symbols here are quads.
inline constexpr int kSegmentCols = segment_cols(4), kQuadsOfSegment = kSegmentSymbols;
inline constexpr int kChunkSegments = 512 / kSegmentCols;  // at most, at once
inline constexpr int kChunkQuads = kChunkSegments * kQuadsOfSegment;
// Bytes of a lane's words: the longest codes of the widest tile, and what a window may see past them.
inline constexpr int kLaneBytes = (kMostTileCols / 4 * kMostTableBits + 31) / 32 * 4 + 32;

struct Walkers {
  alignas(64) std::array<std::array<uint8_t, kLaneBytes>, kWalkLanes> words;
  std::array<const uint8_t*, kWalkLanes> next;
  std::array<uint64_t, kWalkLanes> window;

  void place(int lane, int64_t position) {
    next[lane] = words[lane].data() + position / 8;
    window[lane] = modelling::load_window(next[lane]) >> (position % 8);
  }
  int64_t position(int lane) const { return (next[lane] - words[lane].data()) * 8 + std::countl_zero(window[lane]); }
  int64_t least_position() const {
    int64_t least = position(0);
    for (int lane = 1; lane < kWalkLanes; ++lane) least = std::min(least, position(lane));
    return least;
  }
};

// The next `quads` entries of each lane, entries[lane][quad]. kTakes look-ups fit one window: kTakes * T <= 56.
// Measured on Zen 4, T = 11: 1.53 cycles a quad with 5 look-ups a refill, 1.63 with 4.
template <bool kLzcnt, int kTakes>
ECMV_INLINE void walk(Walkers& walkers, const uint32_t* table, uint64_t mask, int quads,
                      std::array<uint32_t, kChunkQuads>* entries) {
  std::array<const uint8_t*, kWalkLanes> next = walkers.next;
  std::array<uint64_t, kWalkLanes> window = walkers.window;
  uint32_t* out = entries[0].data();
  const auto take = [&](int lane, int quad) {
    uint32_t entry = table[window[lane] & mask];
#if defined(__GNUC__)
    asm volatile(""
                 : "+r"(entry));  // hides neighbouring stores from a compiler that would make gathers of the look-ups
#endif
    out[lane * kChunkQuads + quad] = entry;
    window[lane] >>= entry & 63;
  };
  const auto refill = [&](int lane) {
    const uint64_t taken = modelling::leading_zeros<kLzcnt>(window[lane]);
    next[lane] += taken >> 3;
    window[lane] = modelling::load_window(next[lane]) >> (taken & 7);
  };
  for (; quads >= kTakes; quads -= kTakes, out += kTakes) {
#pragma GCC unroll 8
    for (int i = 0; i < kTakes; ++i)
#pragma GCC unroll 8
      for (int lane = 0; lane < kWalkLanes; ++lane) take(lane, i);
#pragma GCC unroll 8
    for (int lane = 0; lane < kWalkLanes; ++lane) refill(lane);
  }
  for (int i = 0; i < quads; ++i)
#pragma GCC unroll 8
    for (int lane = 0; lane < kWalkLanes; ++lane) take(lane, i);
#pragma GCC unroll 8
  for (int lane = 0; lane < kWalkLanes; ++lane) refill(lane);
  walkers.next = next;
  walkers.window = window;
}

// Fills table[2^T] and returns a bound of the high parts of all entries: all ones up to the highest bit of any.
inline uint32_t build_table(const Stored& stored, uint32_t* table) {
  uint32_t seen = 0;
  for (int64_t i = 0; i < int64_t{1} << stored.table_bits; ++i) {
    table[i] = static_cast<uint32_t>(stored.entry_length(i));
    for (int k = 0; k < 4; ++k) {
      const uint32_t high = static_cast<uint32_t>(stored.entry_high(i, k));
      table[i] |= high << (16 + 4 * k);
      seen |= high;
    }
  }
  return (1u << std::bit_width(seen)) - 1;
}

}  // namespace ecmv::codecs::quad_huffman
