// Lines of 64 bytes in shared memory, dealt to four lanes word by word. Lanes 4 g + t of a group copy 16 bytes each, so
// that eight lines (of rows g) take 512 bytes; then lane 4 g + t reads words t, 4 + t, 8 + t and 12 + t of line g. If a
// word has two columns, these are the columns that matrix units take from that lane, and tokens keep their order.
// Pieces of 16 bytes change places from line to line, so that eight lanes read different banks.
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

inline constexpr int kDealtLineBytes = 64;

// Where piece `piece` of line `line` lies.
ECMV_GPU_DEVICE int dealt_place(int line, int piece) { return line * kDealtLineBytes + (piece ^ (line / 2 & 3)) * 16; }

// This lane's words, for all 32 lanes together, once all have waited for their copies and for each other. `place` is
// where piece lane / 8 of line lane % 8 lies; place_of(line, piece) is the same for any.
template <typename PlaceOf>
ECMV_GPU_DEVICE uint4 load_dealt(Pointer<const std::byte> lines, int place, PlaceOf place_of) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  (void)place_of;
  uint4 words;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(lines + place)))
               : "memory");
  return words;
#else
  (void)place;
  const int lane = Lanes<32>::lane();
  const auto word = [&](int piece) {
    return *cast<const uint32_t>(lines + (place_of(lane / 4, piece) + lane % 4 * 4));
  };
  return {word(0), word(1), word(2), word(3)};
#endif
}
ECMV_GPU_DEVICE uint4 load_dealt(Pointer<const std::byte> lines) {
  const int lane = Lanes<32>::lane();
  return load_dealt(lines, dealt_place(lane % 8, lane / 8), dealt_place);
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
