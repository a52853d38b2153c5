// The scalar part of the CPU kernels: look-ups of 12 bits that give up to 5 exponents, several streams in turn to hide
// their latency, and a buffer for the exponents, from which elements are joined later. Everything is inlined into each
// kernel and so compiled for its instruction set (BMI2 shifts on AVX2 and up). Assumes a verified stream.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "backends/cpu/always_inline.h"
#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/huffman_exponents/format.h"

namespace ecmv::codecs::huffman_exponents {

inline constexpr int kRunBits = 12, kRunCodes = 5;
inline constexpr int64_t kRunEntries = int64_t{1} << kRunBits;
inline constexpr int kStepsOfLoad = 4;  // runs taken from one load of 57 bits
inline constexpr int kStreamsInTurn = 4;
inline constexpr int64_t kSlackBytes = 64;  // written past the last exponent of a stream
// A call decodes at least this many elements, so that making its tables (some 30 us) does not show.
inline constexpr int64_t kCallElements = 262144;

struct FirstCode {
  uint32_t exponent;
  int length;  // 0: no code begins with these bits
};

// runs[w]: the whole codes that the 12 bits w begin with, at most 5: exponents in bytes 0..4, their number in byte 5
// (0: the first code is longer), their bits in byte 6. `first_code` finds the code at the top of 32 bits.
template <class First>
inline void build_runs(uint64_t* runs, const First& first_code) {
  uint16_t singles[kRunEntries];
  for (uint32_t i = 0; i < kRunEntries; ++i) {
    const FirstCode code = first_code(i << (32 - kRunBits));
    singles[i] =
        static_cast<uint16_t>(code.length <= kRunBits ? code.exponent << 8 | static_cast<uint32_t>(code.length) : 0);
  }
  for (uint32_t i = 0; i < kRunEntries; ++i) {
    uint64_t entry = 0;
    int count = 0, bits = 0;
    for (; count < kRunCodes; ++count) {
      const uint32_t single = singles[(i << bits) & (kRunEntries - 1)];
      const int length = static_cast<int>(single & 0xff);
      if (length == 0 || bits + length > kRunBits) break;
      entry |= uint64_t{single >> 8} << (8 * count);
      bits += length;
    }
    runs[i] = entry | static_cast<uint64_t>(count) << 40 | static_cast<uint64_t>(bits) << 48;
  }
}

// Decodes counts[j] exponents from bit positions[j] of each stream to outs[j], which has kSlackBytes more.
// `window_at(j, position)` gives at least 57 bits from there, the first most significant. Positions and pointers are
// local arrays that never escape, so stores cannot alias them and they stay in registers.
template <int kStreams, class WindowAt, class First>
ECMV_INLINE void walk(const uint64_t* runs, const WindowAt& window_at, const First& first_code,
                      const uint64_t* positions, const int64_t* counts, uint8_t* const* outs) {
  uint64_t at[kStreams];
  uint8_t* out[kStreams];
  const uint8_t* end[kStreams];
  for (int j = 0; j < kStreams; ++j) {
    at[j] = positions[j];
    out[j] = outs[j];
    end[j] = outs[j] + counts[j];
  }
  const auto take = [&](int j, uint64_t& window) __attribute__((always_inline)) {
    const uint64_t entry = runs[window >> (64 - kRunBits)];
    const uint64_t count = entry >> 40 & 0xff;
    if (count == 0) [[unlikely]] {
      const FirstCode code = first_code(static_cast<uint32_t>(window_at(j, at[j]) >> 32));
      *out[j]++ = static_cast<uint8_t>(code.exponent);
      at[j] += static_cast<uint64_t>(code.length);
      window = window_at(j, at[j]);
    } else {
      std::memcpy(out[j], &entry, 8);
      out[j] += count;
      window <<= entry >> 48;
      at[j] += entry >> 48;
    }
  };
  for (;;) {
    bool whole = true;
    for (int j = 0; j < kStreams; ++j) whole = whole && end[j] - out[j] >= kStepsOfLoad * kRunCodes;
    if (!whole) break;
    uint64_t windows[kStreams];
#pragma GCC unroll 4
    for (int j = 0; j < kStreams; ++j) windows[j] = window_at(j, at[j]);
#pragma GCC unroll 4
    for (int i = 0; i < kStepsOfLoad; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kStreams; ++j) take(j, windows[j]);
  }
  for (int j = 0; j < kStreams; ++j)
    while (out[j] < end[j]) {
      uint64_t window = window_at(j, at[j]);
      take(j, window);
    }
}

inline const uint8_t* section_bytes(const CompressedView& matrix, int section) {
  return reinterpret_cast<const uint8_t*>(matrix.sections[static_cast<size_t>(section)].bytes.data());
}

inline uint32_t load_u32(const uint8_t* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, 4);
  return value;
}

}  // namespace ecmv::codecs::huffman_exponents
