// The ways in which a kernel's lanes may decode.
#pragma once

#include "backends/gpu/memory.h"
#include "codecs/quad_huffman/format/layout.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

// The way that suits a kernel, by its registers and its products.
struct LaneForm {
  bool lean = false;  // the ring
  // Brings raw bits of bf16 and f8 elements to the L2 cache before they are loaded.
  bool prefetches = true;
  // Loads raw bits a batch before they are needed, or half a batch with `halves`. Otherwise ptxas moves the loads to
  // where registers become free, 60 to 80 instructions before the use (notes/fragments.md has the gain). With few lane
  // groups the bytes under way decide. (H100, 64 tokens, symbols of eight, 16 lane groups, us with halves and without:
  // bf16 at 16384 x 16384 180.4, 167.6, at 8192 x 8192 49.2, 46.9; f8 151.6, 140.9.)
  bool early = false, halves = false;
  // Looks a symbol up before the one before it is visited. Visits with fences want that, because the compiler moves
  // nothing across these. (The same kernel: 1 % less time.)
  bool looks_ahead = false;
  bool placed = false;  // patches are in strips' form
  int rotates = 0;      // entries are rotated symbols, and tables have so many copies: 2 or 8
};

// For products that are not lean. Raw bits of floats are in the L2 already, and loading them early gained nothing.
template <int kForm>
inline constexpr LaneForm kEarlyForm{.early = gpu::kMovesLoads && !is_float(kForm)};
// For lean kernels with 32 lane groups, which have 64 registers each, too few for two batches of floats.
template <int kForm>
inline constexpr LaneForm kLeanForm{
    .lean = true, .prefetches = false, .early = gpu::kMovesLoads, .halves = is_float(kForm)};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
