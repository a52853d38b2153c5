// The bits of one block, read by one lane of a GPU through a ring of words in shared memory, a column of it for each
// thread. Word k of neighbouring threads lies side by side, so no two lanes meet in a bank wherever they read.
// Asynchronous copies bring words three runs of symbols ahead: with loads into registers some lane of a wave waited for
// memory in nearly every run. There is no refill inside a run: `top_up` between runs leaves enough for the longest one,
// so lanes with streams of different lengths stay in step.
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "codecs/tans/format.h"

namespace ecmv::codecs::tans::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

// Symbols between two calls of top_up.
inline constexpr int kRunSymbols = 16;
// Runs whose copies may be under way.
inline constexpr int kRunsAhead = 3;

// kSymbolBits is the most that a symbol takes.
template <int kSymbolBits>
class LaneBits {
 public:
  static constexpr int kWords = kSymbolBits <= 14 ? 32 : 64, kWordsOfCopy = 4;
  static_assert((kRunsAhead + 1) * kRunSymbols * kSymbolBits <= (kWords - kWordsOfCopy) * 32);
  // A window reads up to two words past its first one, so the ring's first words are repeated after its last ones.
  static constexpr int kMirrored = 2;
  static constexpr int64_t kRingBytesOfThread = (kWords + kMirrored) * 4;

  // `rings` belongs to the thread block. The bits begin `begin` bytes after the start of payload.
  ECMV_GPU_DEVICE LaneBits(gpu::Pointer<std::byte> rings, gpu::Pointer<const std::byte> payload, int64_t payload_bytes,
                           int64_t begin)
      : column_(gpu::cast<uint32_t>(rings) +
                (gpu::thread_index() / kColumns * kColumns * (kWords + kMirrored) + gpu::thread_index() % kColumns)),
        next_(gpu::cast<const uint32_t>(payload + (begin & -16))),
        left_((payload_bytes - (begin & -16)) / 16),
        position_(static_cast<uint32_t>(begin & 15) * 8) {
    top_up();
    gpu::wait_copies<0>();
  }

  // A position in bits, counted modulo the ring.
  ECMV_GPU_DEVICE uint32_t position() const { return position_; }
  ECMV_GPU_DEVICE void move_to(uint32_t position) { position_ = position; }

  // 32 or 64 bits from a position of this run on.
  ECMV_GPU_DEVICE uint32_t window32(uint32_t position) const {
    const gpu::Pointer<const uint32_t> words = words_at(position);
    return gpu::funnel_shift_right(words[0], words[kColumns], position);
  }
  ECMV_GPU_DEVICE gpu::uint2 window64(uint32_t position) const {
    const gpu::Pointer<const uint32_t> words = words_at(position);
    const uint32_t middle = words[kColumns];
    return {gpu::funnel_shift_right(words[0], middle, position),
            gpu::funnel_shift_right(middle, words[2 * kColumns], position)};
  }

  // Call this before every run.
  ECMV_GPU_DEVICE void top_up() {
    while (copied_ - position_ / 32 + kWordsOfCopy <= kWords) {
      const uint32_t at = copied_ & (kWords - 1);
      copied_ += kWordsOfCopy;
      if (--left_ < 0) continue;  // past the payload there is nothing that a symbol takes
      copy(at, kWordsOfCopy);
      if (at == 0) copy(kWords, kMirrored);
      next_ += kWordsOfCopy;
    }
    gpu::commit_copies();
    gpu::wait_copies<kRunsAhead>();
    // Lets blocks have any length.
    if (position_ >= kWords * 32) {
      position_ -= kWords * 32;
      copied_ -= kWords;
    }
  }

  // No copy is under way after this.
  ECMV_GPU_DEVICE void end() const { gpu::wait_copies<0>(); }

 private:
  static constexpr int kColumns = 32;  // side by side: the banks of shared memory

  ECMV_GPU_DEVICE gpu::Pointer<const uint32_t> words_at(uint32_t position) const {
    return column_ + static_cast<int>(position / 32 & (kWords - 1)) * kColumns;
  }
  ECMV_GPU_DEVICE void copy(uint32_t at, int count) const {
    ECMV_GPU_UNROLL
    for (int i = 0; i < count; ++i)
      gpu::copy_async<4>(gpu::cast<std::byte>(column_ + (static_cast<int>(at) + i) * kColumns),
                         gpu::cast<const std::byte>(next_ + i));
  }

  gpu::Pointer<uint32_t> column_;
  gpu::Pointer<const uint32_t> next_;
  int64_t left_;  // pieces of 16 bytes of the payload that are not copied
  uint32_t position_;
  uint32_t copied_ = 0;  // words, counted like the position
};

}  // namespace ecmv::codecs::tans::ECMV_GPU_NAMESPACE
