// How thread blocks that run together pass a vector from layer to layer. A word is 8 bytes: 4 int8 values and their
// 32-bit epoch. One instruction stores it and one reads it, so the reader needs neither a flag beside the values nor a
// fence between the two: it reads the word until the epoch is right. NCCL's protocol LL works that way. (A counter that
// all blocks add to and wait for costs two more trips to the L2.)
//
// Two buffers take turns: layer k's results are in buffer k % 2. A kernel must keep two rules:
// 1. A block reads layer k's results only if it has results of layer k+1 to put, and puts them after a barrier of the
//    block that follows all of its reads of layer k.
// 2. A block puts results of layer k+1 only after it has read all results of layer k.
// So nothing is overwritten before it is read. A block that puts a result of layer k+2 has read all results of layer
// k+1; each of these was put by a block that was done with layer k; and blocks without results of layer k+1 do not read
// layer k. Epochs go on from launch to launch, though a replayed graph has constant parameters: the state counts the
// epochs used so far, and the last block to end updates it.
#pragma once

#include <cstdint>

#include "backends/gpu/memory.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// A load that sees other blocks' stores while this kernel runs, 8 bytes at once; and such a store.
ECMV_GPU_DEVICE uint2 load_exchanged(Pointer<const uint2> pointer) {
#if defined(__HIP_DEVICE_COMPILE__) && defined(__HIP__)
  const uint64_t bits = __hip_atomic_load(cast<const uint64_t>(pointer), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
#elif defined(__CUDA_ARCH__)
  uint64_t bits;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(pointer) : "memory");
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
#else
  return *pointer;
#endif
}
// Two words at once, at a multiple of 16 bytes.
ECMV_GPU_DEVICE uint4 load_exchanged(Pointer<const uint4> pointer) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__)
  uint64_t low, high;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(pointer) : "memory");
  return {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
          static_cast<uint32_t>(high >> 32)};
#else
  const uint2 low = load_exchanged(cast<const uint2>(pointer)), high = load_exchanged(cast<const uint2>(pointer) + 1);
  return {low.x, low.y, high.x, high.y};
#endif
}
ECMV_GPU_DEVICE void store_exchanged(Pointer<uint2> pointer, uint2 word) {
#if defined(__HIP_DEVICE_COMPILE__) && defined(__HIP__)
  __hip_atomic_store(cast<uint64_t>(pointer), uint64_t{word.y} << 32 | word.x, __ATOMIC_RELAXED,
                     __HIP_MEMORY_SCOPE_AGENT);
#elif defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(pointer), "l"(uint64_t{word.y} << 32 | word.x) : "memory");
#else
  *pointer = word;
#endif
}

// A kernel's parameter. Each thread calls begin() once. After it, positions count the words of a layer's vector in any
// order on which all blocks agree.
class Exchange {
 public:
  // Host: for layers with at most `words` words. Takes bytes(words) bytes at `place`, aligned to 256 and zero at first
  // (Place::zeroed).
  static int64_t bytes(int64_t words) { return kStateBytes + 2 * padded(words) * static_cast<int64_t>(sizeof(uint2)); }
  Exchange(std::byte* place, int64_t words)
      : state_(reinterpret_cast<uint32_t*>(place)),
        words_(reinterpret_cast<uint2*>(place + kStateBytes)),
        words_of_buffer_(static_cast<int>(padded(words))) {}

  // Zero is no epoch, since words are zero at first.
  ECMV_GPU_DEVICE uint32_t epoch() const { return *state_ + 1; }
  ECMV_GPU_DEVICE void begin() { begin(epoch()); }
  ECMV_GPU_DEVICE void begin(uint32_t epoch) { epoch_ = epoch; }
  // Publishes the four values at `position` of layer `layer`.
  ECMV_GPU_DEVICE void put(int layer, int64_t position, uint32_t values) const {
    store_exchanged(buffer(layer) + position, uint2{values, epoch_ + static_cast<uint32_t>(layer)});
  }
  // Waits for the four values at `position` of layer `layer`.
  ECMV_GPU_DEVICE uint32_t get(int layer, int64_t position) const {
    for (;;) {
      const uint2 word = load_exchanged(Pointer<const uint2>(buffer(layer) + position));
      if (word.y == epoch_ + static_cast<uint32_t>(layer)) return word.x;
      pause();
    }
  }
  // Loads kPairs x 2 words at once: pair i is at the positions 2 (first + i * distance) and the one after it. True if
  // all of them are there. The loads overlap. Pairs from `count` on are not loaded.
  template <int kPairs>
  ECMV_GPU_DEVICE bool try_pairs(int layer, int64_t first, int64_t distance, int count, uint2 (&values)[kPairs]) const {
    const uint32_t epoch = epoch_ + static_cast<uint32_t>(layer);
    const Pointer<const uint4> pairs = cast<const uint4>(buffer(layer)) + first;
    uint4 words[kPairs];
    ECMV_GPU_UNROLL
    for (int i = 0; i < kPairs; ++i)
      words[i] = i < count ? load_exchanged(pairs + i * distance) : uint4{0, epoch, 0, epoch};
    bool there = true;
    ECMV_GPU_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      there = there && words[i].y == epoch && words[i].w == epoch;
      values[i] = uint2{words[i].x, words[i].z};
    }
    return there;
  }
  // One thread of each block calls it, after a barrier of its block that follows begin(). `layers` counts this launch's
  // layers.
  ECMV_GPU_DEVICE void end(int layers) const {
    if (atomic_add(state_ + 1, uint32_t{1}) + 1 != static_cast<uint32_t>(grid_size())) return;
    state_[1] = 0;
    state_[0] = epoch_ + static_cast<uint32_t>(layers) - 1;
  }

 private:
  static constexpr int64_t kStateBytes = 256;
  static int64_t padded(int64_t words) { return (words + 31) / 32 * 32; }

  ECMV_GPU_DEVICE Pointer<uint2> buffer(int layer) const { return words_ + (layer % 2) * words_of_buffer_; }

  Pointer<uint32_t> state_;  // the number of epochs used; the number of blocks that have ended
  Pointer<uint2> words_;
  int words_of_buffer_;
  uint32_t epoch_ = 0;
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
