// A vector of int8 in shared memory, and the sum of its elements. Kernels whose weights are stored with an offset
// subtract a multiple of the sum from every row.
#pragma once

#include <cstdint>

#include "backends/gpu/lanes.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// sum + the four signed bytes of a word.
ECMV_GPU_DEVICE int32_t sum_of_bytes(uint32_t word, int32_t sum) {
  return dot4(0x01010101, static_cast<int32_t>(word), sum);
}

// Adds up `own` over the threads of a group of 32 lanes.
ECMV_GPU_DEVICE void add_to(Pointer<int32_t> sum, int32_t own) {
  using LaneGroup = Lanes<32>;
  own = LaneGroup::reduce_add(own);
  if (LaneGroup::lane() == 0 && own != 0) atomic_add(sum, own);
}

// Copies x [cols], in global memory and aligned to 16 bytes, to `to` in shared memory, with zeros up to column
// `stored_cols`, a multiple of 16, and adds its elements to *sum. All threads of a block call it, whole groups of 32
// lanes. It needs a barrier of the block after it, and one between the code that clears *sum and this.
ECMV_GPU_DEVICE void load_inputs(Pointer<const int8_t> x, int cols, int stored_cols, Pointer<std::byte> to,
                                 Pointer<int32_t> sum) {
  int32_t own = 0;
  for (int col = thread_index() * 16; col < stored_cols; col += block_size() * 16) {
    const uint4 words = col < cols ? *cast<const uint4>(x + col) : uint4{};
    *cast<uint4>(to + col) = words;
    own = sum_of_bytes(words.w, sum_of_bytes(words.z, sum_of_bytes(words.y, sum_of_bytes(words.x, own))));
  }
  add_to(sum, own);
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
