// The scalar heart of the SIMD kernels: eight lanes of a tile walk through their codes together, one look-up each in
// turn. Everything is always inlined, so that each instruction set compiles it for itself (BMI2 shifts on AVX2 and up).
// Assumes a verified stream.
//
// The words of a lane are first copied together. A window holds a lane's next bits under a marker bit. The zeros above
// the marker tell how many of the 64 bits loaded at `next` were consumed, so a refill is seven operations. An entry of
// the kernels' own table has the code's length in bits 0..5, where a shift takes it without a mask. K = 4: the high
// parts (encode/model.h) are in bits 16..31. K = 8: columns 0..3 are in bits 6 and 7 of the bytes, columns 5..7 in bits
// 4 and 5 of bytes 1..3, and column 4, whose place the length takes, in bits 2 and 3 of byte 1.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "backends/cpu/always_inline.h"
#include "codecs/modelling/marked_window.h"
#include "codecs/quad_huffman/format/stored.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr int kWalkLanes = 8;
inline constexpr int kChunkCols = 512;  // a lane's, at once and at most: eight lanes' buffers stay in the L1 cache
inline constexpr int kChunkSymbols = kChunkCols / 4;
// Bytes of a lane's words: the longest codes of the widest tile, and the bits that a window may see past them.
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

// Makes the next `symbols` entries of each lane, entries[lane][symbol]. kTakes look-ups fit one window: kTakes * T <=
// 56. Zen 4, T = 11: 1.53 cycles a quad with 5 look-ups a refill, 1.63 with 4.
template <bool kLzcnt, int kTakes>
ECMV_INLINE void walk(Walkers& walkers, const uint32_t* table, uint64_t mask, int symbols,
                      std::array<uint32_t, kChunkSymbols>* entries) {
  std::array<const uint8_t*, kWalkLanes> next = walkers.next;
  std::array<uint64_t, kWalkLanes> window = walkers.window;
  uint32_t* out = entries[0].data();
  const auto take = [&](int lane, int symbol) {
    uint32_t entry = table[window[lane] & mask];
#if defined(__GNUC__)
    asm volatile(""
                 : "+r"(entry));  // hides neighbouring stores from a compiler that would make gathers of the look-ups
#endif
    out[lane * kChunkSymbols + symbol] = entry;
    window[lane] >>= entry & 63;
  };
  const auto refill = [&](int lane) {
    const uint64_t taken = modelling::leading_zeros<kLzcnt>(window[lane]);
    next[lane] += taken >> 3;
    window[lane] = modelling::load_window(next[lane]) >> (taken & 7);
  };
  for (; symbols >= kTakes; symbols -= kTakes, out += kTakes) {
#pragma GCC unroll 8
    for (int i = 0; i < kTakes; ++i)
#pragma GCC unroll 8
      for (int lane = 0; lane < kWalkLanes; ++lane) take(lane, i);
#pragma GCC unroll 8
    for (int lane = 0; lane < kWalkLanes; ++lane) refill(lane);
  }
  for (int i = 0; i < symbols; ++i)
#pragma GCC unroll 8
    for (int lane = 0; lane < kWalkLanes; ++lane) take(lane, i);
#pragma GCC unroll 8
  for (int lane = 0; lane < kWalkLanes; ++lane) refill(lane);
  walkers.next = next;
  walkers.window = window;
}

// The place of column k's high part in the kernels' entries.
inline constexpr int walk_shift(int symbol_cols, int k) {
  if (symbol_cols == 4) return 16 + 4 * k;
  return k < 4 ? 8 * k + 6 : k == 4 ? 10 : 8 * (k - 4) + 4;
}

// Fills table[2^T] and returns a bound of the high parts of all entries: all ones up to the highest bit of any.
inline uint32_t build_table(const Stored& stored, uint32_t* table) {
  if (has_packed_entries(stored.symbol_cols, stored.form)) {  // all columns at once
    for (int64_t i = 0; i < int64_t{1} << stored.table_bits; ++i) {
      const uint32_t entry = stored.entry(i);
      table[i] = entry >> 28 | (entry & 3) << 10 | (entry & 0x0f0f0f0cu) << 4;
    }
    return 3;
  }
  uint32_t seen = 0;
  for (int64_t i = 0; i < int64_t{1} << stored.table_bits; ++i) {
    table[i] = static_cast<uint32_t>(stored.entry_length(i));
    for (int k = 0; k < stored.symbol_cols; ++k) {
      const uint32_t high = static_cast<uint32_t>(stored.entry_high(i, k));
      table[i] |= high << walk_shift(stored.symbol_cols, k);
      seen |= high;
    }
  }
  return (1u << std::bit_width(seen)) - 1;
}

}  // namespace ecmv::codecs::quad_huffman
