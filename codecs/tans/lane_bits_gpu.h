// The bits of one block, read by one lane of a GPU. A ring of words in shared memory, a column of it for each thread: word k of
// neighbouring threads lies side by side, so that no two lanes meet in a bank wherever each of them reads. Words come 16 bytes a
// load, two loads ahead of their use. There is no refill inside the decoding of symbols: `top_up` is called between runs of
// symbols and leaves enough for the longest run, so that lanes whose streams are of different lengths stay in step.
#pragma once

#include "backends/gpu/lanes.h"
#include "codecs/tans/format.h"

namespace ecmv::codecs::tans::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

// Symbols between two calls of top_up.
inline constexpr int kRunSymbols = 32;

// kSymbolBits: the most that a symbol takes.
template <int kSymbolBits>
class LaneBits {
 public:
  static constexpr int kWords = kSymbolBits * kRunSymbols <= 384 ? 16 : 32;
  static_assert(kSymbolBits * kRunSymbols <= (kWords - 4) * 32);
  // A window reads up to two words behind its first one: the ring's first words follow its last ones once more.
  static constexpr int64_t kRingBytesOfThread = (kWords + 2) * 4;

  // `ring`: of the thread block. `begin`: where the bits begin, in bytes from the start of payload.
  ECMV_GPU_DEVICE LaneBits(gpu::Pointer<std::byte> ring, gpu::Pointer<const std::byte> payload, int64_t payload_bytes, int64_t begin)
      : column_(gpu::cast<uint32_t>(ring) + gpu::thread_index()), stride_(gpu::block_size()),
        next_(gpu::cast<const gpu::uint4>(payload + (begin & -16))), left_((payload_bytes - (begin & -16)) / 16),
        position_(static_cast<uint32_t>(begin & 15) * 8) {
    ahead_[0] = load();
    ahead_[1] = load();
    top_up();
  }

  // The next 64 bits, those of at most the run since the last top_up being true.
  ECMV_GPU_DEVICE gpu::uint2 window() const {
    const gpu::Pointer<const uint32_t> words = column_ + static_cast<int>(position_ / 32 & (kWords - 1)) * stride_;
    const uint32_t middle = words[stride_];
    return {gpu::funnel_shift_right(words[0], middle, position_), gpu::funnel_shift_right(middle, words[2 * stride_], position_)};
  }
  ECMV_GPU_DEVICE void skip(uint32_t bits) { position_ += bits; }

  ECMV_GPU_DEVICE void top_up() {
    while (loaded_ - position_ / 32 + 4 <= kWords) {
      const uint32_t at = loaded_ & (kWords - 1);
      const gpu::Pointer<uint32_t> words = column_ + static_cast<int>(at) * stride_;
      words[0] = ahead_[0].x;
      words[stride_] = ahead_[0].y;
      words[2 * stride_] = ahead_[0].z;
      words[3 * stride_] = ahead_[0].w;
      if (at == 0) {
        words[kWords * stride_] = ahead_[0].x;
        words[(kWords + 1) * stride_] = ahead_[0].y;
      }
      loaded_ += 4;
      ahead_[0] = ahead_[1];
      ahead_[1] = load();
    }
    // Positions are counted modulo the ring, so that blocks may be of any length.
    if (position_ >= kWords * 32) {
      position_ -= kWords * 32;
      loaded_ -= kWords;
    }
  }

 private:
  ECMV_GPU_DEVICE gpu::uint4 load() {
    if (left_ <= 0) return gpu::uint4{};
    const gpu::uint4 words = gpu::load_shared_by_many(next_);
    ++next_;
    --left_;
    return words;
  }

  gpu::Pointer<uint32_t> column_;
  int stride_;
  gpu::Pointer<const gpu::uint4> next_;
  int64_t left_;         // whole 16 bytes of the payload that are not loaded
  uint32_t position_;    // in bits
  uint32_t loaded_ = 0;  // words put into the ring
  gpu::uint4 ahead_[2];
};

}  // namespace ecmv::codecs::tans::ECMV_GPU_NAMESPACE
