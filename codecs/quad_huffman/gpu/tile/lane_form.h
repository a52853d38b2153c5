// Which of several ways a kernel's lanes decode.
#pragma once

#include "backends/gpu/memory.h"
#include "codecs/quad_huffman/format/layout.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

// What suits a kernel, by its registers and by what it multiplies.
struct LaneForm {
  bool lean = false;  // the ring
  // Raw bits of bf16 and f8 elements are brought to the L2 cache before they are loaded.
  bool prefetches = true;
  // Raw bits are loaded a batch before they are needed, with `halves` half of one. Else ptxas moves the loads to
  // where registers are free for them, which was 60 to 80 instructions before (NOTES.md: what that gains). Bytes
  // under way are what decides with few lane groups. (H100, 64 tokens, symbols of eight, 16 lane groups, us with
  // halves and without: bf16 at 16384 x 16384 180.4, 167.6, at 8192 x 8192 49.2, 46.9; f8 151.6, 140.9.)
  bool early = false, halves = false;
  // A symbol is looked up before the one before it is visited. That is for visits with fences, across which the
  // compiler moves nothing. (The same kernel: 1 % less time.)
  bool looks_ahead = false;
  bool placed = false;  // patches are those of strips
  int rotates = 0;      // entries are those of rotated symbols, and tables have so many copies: 2 or 8
};

// For products that are not lean. Raw bits of floats are in the L2 already, and loading them early gained nothing.
template <int kForm>
inline constexpr LaneForm kEarlyForm{.early = gpu::kMovesLoads && !is_float(kForm)};
// For lean kernels whose lane groups multiply alone. 32 lane groups have 64 registers each, not enough for two
// batches of floats.
template <int kForm, int kMostThreads>
inline constexpr LaneForm kLeanForm{.lean = true,
                                    .prefetches = false,
                                    .early = gpu::kMovesLoads,
                                    .halves = is_float(kForm) && kMostThreads >= 32 * kLanes};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
