// The words of one block on a GPU, taken by the lanes of a group in lane order. Asynchronous copies fill a ring of four
// chunks in shared memory, 16 bytes a lane and chunk: while one chunk is used and the next one is there, two are on
// their way. The first chunk is repeated after the last one, so a lane's place needs no wrapping. Lanes that need a
// word find theirs by ballot and prefix count. Bytes past a block are copied as well, but no lane whose element counts
// takes one, so nothing asks where a block ends.
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "codecs/rans/format.h"

namespace ecmv::codecs::rans::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

inline constexpr int kCopyBytes = 16, kRingChunks = 4;
inline constexpr int64_t kRingBytesOfLane = kCopyBytes * (kRingChunks + 1);

template <int kGroup>
class WordQueue {
 public:
  using Group = gpu::Lanes<kGroup>;
  using Word = W16S32::Word;
  using State = W16S32::State;

  // Steps of the group between two calls of `advance`; together they take at most a chunk.
  static constexpr int kAdvanceSteps = kCopyBytes / sizeof(Word);

  // `ring` is where the group's ring begins in shared memory, with kRingBytesOfLane bytes for each lane. `begin` is the
  // first word's place, in bytes from the start of payload.
  ECMV_GPU_DEVICE WordQueue(int ring, gpu::Pointer<const std::byte> payload, int64_t payload_bytes, int64_t begin)
      : ring_(ring),
        payload_(payload),
        payload_bytes_(payload_bytes),
        next_copy_((begin & -kCopyBytes) + Group::lane() * kCopyBytes),
        cursor_(static_cast<int>(ring + begin % kCopyBytes) / static_cast<int>(sizeof(Word))),
        chunk_end_(ring / static_cast<int>(sizeof(Word)) + kChunkWords) {
    Group::sync();  // the ring's last user has read what it wanted
    ECMV_GPU_UNROLL
    for (int i = 0; i < kRingChunks; ++i) copy_chunk();
    gpu::wait_copies<kRingChunks - 2>();
    Group::sync();
  }

  // Lifts the states that fell below the lower bound, lane after lane.
  ECMV_GPU_DEVICE void refill(State& x) {
    const bool need = x < W16S32::kLower;
    const typename Group::Mask mask = Group::ballot(need);
    const State refilled = static_cast<State>(x << (8 * sizeof(Word)) | word(cursor_ + Group::count_before(mask)));
    x = need ? refilled : x;
    cursor_ += gpu::popcount(mask);
  }

  // Call this after every kAdvanceSteps steps.
  ECMV_GPU_DEVICE void advance() {
    if (cursor_ < chunk_end_) return;
    if (next_slot_ == kRingChunks - 1) {  // the last chunk has been used; its successor is the first one's double
      cursor_ -= kChunkWords * kRingChunks;
      chunk_end_ -= kChunkWords * kRingChunks;
    }
    chunk_end_ += kChunkWords;
    Group::sync();  // all lanes have left the chunk that is overwritten now
    copy_chunk();
    gpu::wait_copies<kRingChunks - 2>();
    Group::sync();
  }

  // No copy is under way after this.
  ECMV_GPU_DEVICE void end() const { gpu::wait_copies<0>(); }

 private:
  static constexpr int kChunkBytes = kGroup * kCopyBytes, kChunkWords = kChunkBytes / static_cast<int>(sizeof(Word));

  ECMV_GPU_DEVICE Word word(int number) const { return gpu::cast<const Word>(gpu::shared_memory())[number]; }

  ECMV_GPU_DEVICE void copy_chunk() {
    if (next_copy_ + kCopyBytes <= payload_bytes_) {
      const gpu::Pointer<std::byte> to =
          gpu::shared_memory() + (ring_ + next_slot_ * kChunkBytes + Group::lane() * kCopyBytes);
      gpu::copy_async<kCopyBytes>(to, payload_ + next_copy_);
      if (next_slot_ == 0) gpu::copy_async<kCopyBytes>(to + kRingChunks * kChunkBytes, payload_ + next_copy_);
    }
    gpu::commit_copies();
    next_copy_ += kChunkBytes;
    next_slot_ = (next_slot_ + 1) % kRingChunks;
  }

  int ring_;
  gpu::Pointer<const std::byte> payload_;
  int64_t payload_bytes_, next_copy_;
  int cursor_;         // the next word, counted from the start of shared memory
  int chunk_end_;      // where the chunk that is used ends
  int next_slot_ = 0;  // of the ring: where the next chunk goes
};

}  // namespace ecmv::codecs::rans::ECMV_GPU_NAMESPACE
