// How CPU kernels read bits, the first one least significant: a window of 64 bits holds the next ones under a marker
// bit. What is taken is shifted out at the bottom, so that the zeros above the marker tell how many of the 63 bits that
// were loaded at `next` are gone. At most 56 may be taken between two refills, which are
//   taken = leading_zeros(window);  next += taken >> 3;  window = load_window(next) >> (taken & 7);
// and stand where the windows are, as elements of local arrays: through references g++ 12 makes other code of it. Eight
// bytes are readable at `next`, whatever they are.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "backends/cpu/always_inline.h"

namespace ecmv::codecs::modelling {

// Zeros above the highest set bit of a window, which always has its marker. `kLzcnt`: the instruction set has LZCNT.
// Highway's AVX2 does not tell the compiler so, though every CPU with BMI2 has it; without it this is a BSR, 4 cycles
// on Zen.
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
