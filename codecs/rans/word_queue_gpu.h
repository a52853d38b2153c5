// The words of one block on a GPU, taken by the lanes of a group in lane order. A ring of four chunks in shared memory, 16 bytes a
// lane and chunk, is filled by asynchronous copies: while one chunk is used and the next one is there, two are on their way. The
// lanes that need a word find theirs by ballot and prefix count. Bytes behind a block are copied like its own and never taken by
// a lane whose element counts, so that nothing asks where a block ends.
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "codecs/rans/format.h"

namespace ecmv::codecs::rans::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

// Steps of a group between two calls of WordQueue::advance: they take less than a chunk, whatever the form.
inline constexpr int kRoundSteps = 4;
inline constexpr int kCopyBytes = 16, kRingChunks = 4;
inline constexpr int64_t kRingBytesOfLane = kCopyBytes * kRingChunks;

template <class Form, int kGroup>
class WordQueue {
 public:
  using Group = gpu::Lanes<kGroup>;
  using Word = typename Form::Word;
  using State = typename Form::State;

  // `ring`: kRingBytesOfLane bytes for each lane of the group. `begin`: the first word, in bytes from the start of payload.
  ECMV_GPU_DEVICE WordQueue(gpu::Pointer<std::byte> ring, gpu::Pointer<const std::byte> payload, int64_t payload_bytes, int64_t begin)
      : ring_(ring), payload_(payload), payload_bytes_(payload_bytes), next_copy_((begin & -kCopyBytes) + Group::lane() * kCopyBytes),
        cursor_(static_cast<uint32_t>(begin % kCopyBytes) / sizeof(Word)) {
    Group::sync();  // the ring's last user has read what it wanted
    ECMV_GPU_UNROLL
    for (int i = 0; i < kRingChunks; ++i) copy_chunk();
    gpu::wait_copies<kRingChunks - 2>();
    Group::sync();
  }

  // Brings the states that fell below the lower bound back, lane after lane.
  ECMV_GPU_DEVICE void refill(State& x) {
    const bool need = x < Form::kLower;
    const typename Group::Mask mask = Group::ballot(need);
    if constexpr (sizeof(Word) > 1) {
      const State refilled = static_cast<State>(x << (8 * sizeof(Word)) | word(cursor_ + static_cast<uint32_t>(Group::count_before(mask))));
      x = need ? refilled : x;
      cursor_ += static_cast<uint32_t>(gpu::popcount(mask));
    } else {
      // One byte or two, of which a lane takes both before the next lane's turn.
      const bool need_two = x < (Form::kLower >> 8);
      const typename Group::Mask twos = Group::ballot(need_two);
      const uint32_t at = cursor_ + static_cast<uint32_t>(Group::count_before(mask) + Group::count_before(twos));
      const State one = x << 8 | word(at), two = one << 8 | word(at + 1);
      x = need_two ? two : need ? one : x;
      cursor_ += static_cast<uint32_t>(gpu::popcount(mask) + gpu::popcount(twos));
    }
  }

  // After every kRoundSteps steps.
  ECMV_GPU_DEVICE void advance() {
    if (static_cast<int32_t>(cursor_ - chunk_end_) < 0) return;
    chunk_end_ += kChunkWords;
    Group::sync();  // all lanes have left the chunk that is overwritten now
    copy_chunk();
    gpu::wait_copies<kRingChunks - 2>();
    Group::sync();
  }

  // No copy is under way behind this.
  ECMV_GPU_DEVICE void end() const { gpu::wait_copies<0>(); }

 private:
  static constexpr uint32_t kChunkWords = static_cast<uint32_t>(kGroup * kCopyBytes / sizeof(Word));
  static_assert(kChunkWords >= kRoundSteps * kGroup * (sizeof(Word) == 1 ? 2 : 1));

  ECMV_GPU_DEVICE Word word(uint32_t number) const { return gpu::cast<const Word>(ring_)[number & (kChunkWords * kRingChunks - 1)]; }

  ECMV_GPU_DEVICE void copy_chunk() {
    if (next_copy_ + kCopyBytes <= payload_bytes_) gpu::copy_async<kCopyBytes>(ring_ + (next_slot_ + Group::lane() * kCopyBytes), payload_ + next_copy_);
    gpu::commit_copies();
    next_copy_ += kGroup * kCopyBytes;
    next_slot_ = (next_slot_ + kGroup * kCopyBytes) & (kGroup * kCopyBytes * kRingChunks - 1);
  }

  gpu::Pointer<std::byte> ring_;
  gpu::Pointer<const std::byte> payload_;
  int64_t payload_bytes_, next_copy_;
  uint32_t cursor_;                   // words taken since the first byte copied
  uint32_t chunk_end_ = kChunkWords;  // where the chunk that is used ends
  int next_slot_ = 0;                 // of the ring, in bytes
};

}  // namespace ecmv::codecs::rans::ECMV_GPU_NAMESPACE
