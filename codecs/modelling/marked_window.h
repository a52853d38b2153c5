// How CPU kernels read bits, the first one least significant. A window of 64 bits holds the next bits below a marker
// bit. Consumed bits are shifted out at the bottom, so the zeros above the marker count how many of the 63 bits loaded
// at `next` are gone. At most 56 bits may be consumed between two refills. A refill is
//
// taken = leading_zeros(window); next += taken >> 3; window = load_window(next) >> (taken & 7);
//
// and is written out where the windows are elements of local arrays: through references g++ 12 makes other code of it.
// Eight bytes must be readable at `next`, whatever they hold.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "backends/cpu/always_inline.h"

namespace ecmv::codecs::modelling {

// Zeros above the highest set bit of a window, which always has its marker. `kLzcnt` says that the instruction set has
// LZCNT. Every CPU with BMI2 has it, but Highway's AVX2 does not tell the compiler so; without it this is a BSR, 4
// cycles on Zen.
template <bool kLzcnt>
ECMV_INLINE uint64_t leading_zeros(uint64_t window) {
#if defined(__x86_64__) && defined(__GNUC__)
  if constexpr (kLzcnt) {
    uint64_t zeros;
    asm("lzcnt %1, %0" : "=r"(zeros) : "r"(window) : "cc");
    return zeros;
  }
#endif
  return static_cast<uint64_t>(std::countl_zero(window | 1));
}

ECMV_INLINE uint64_t load_window(const uint8_t* next) {
  uint64_t window;
  std::memcpy(&window, next, 8);
  if constexpr (std::endian::native == std::endian::big) window = __builtin_bswap64(window);
  return window | uint64_t{1} << 63;
}

}  // namespace ecmv::codecs::modelling
