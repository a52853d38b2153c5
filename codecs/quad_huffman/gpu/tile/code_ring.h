// The lines of codes that a lane group (32 lanes) holds in shared memory: the last kRingLines of its tile, and lines
// under way. The ring's first lines are repeated after its last one, so the other words of two windows need no wrap.
//
// A lean ring, for kernels of bf16 with few registers, keeps the tile's schedule after its lines, a byte a segment. In
// a register it would spill, and spilled registers are waited for with the loads under way. Its full lines come in bulk
// where the device has such copies, for one segment and the next in turn. (H200, 16384 x 16384, us: fragments of bf16
// with 1, 8, 16 tokens 101.5, 109.5, 120.4 so and with nothing loaded past a tile's end; 105.7, 113.9, 121.9 before.
// int8 elements were 1 to 4 % slower.)
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/gpu/tile/streams.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

inline constexpr int kRepeatedLines = 2, kAllLinesBytes = kRingLines * kLineBytes,
                     kRepeatedBytes = kRepeatedLines * kLineBytes, kRingBytes = kAllLinesBytes + kRepeatedBytes,
                     kScheduleBytes = kLanes, kArrivals = kAhead + 1,
                     kLeanRingBytes = kRingBytes + kScheduleBytes + kArrivals * gpu::Arrival::kBytes;
static_assert(kArrivals == 2);

template <bool kLean>
class CodeRing {
 public:
  static constexpr int kBytes = kLean ? kLeanRingBytes : kRingBytes;
  static constexpr bool kBulk = kLean && gpu::kBulkCopies;

  explicit ECMV_GPU_DEVICE CodeRing(gpu::Pointer<std::byte> shared) : ring_(shared) {
    if constexpr (kBulk) {
      if (LaneGroup::lane() == 0)
        for (uint32_t phase = 0; phase < kArrivals; ++phase) arrival(phase).init();
      LaneGroup::sync();
    }
  }

  // Begins a tile: `schedule` of segment number `lane`, `lines` as the index has them, the masks before the codes.
  ECMV_GPU_DEVICE void set_schedule(uint32_t schedule) {
    if constexpr (kLean) {
      gpu::cast<uint8_t>(ring_ + kRingBytes)[LaneGroup::lane()] = static_cast<uint8_t>(schedule);
      LaneGroup::sync();
    } else {
      schedule_ = schedule;
    }
  }
  ECMV_GPU_DEVICE void begin(uint32_t lines, gpu::Pointer<const std::byte> masks) {
    const int lane = LaneGroup::lane(), partial = static_cast<int>(lines >> 16);
    full_ = static_cast<int>(lines & 0xFFFF) * kBlockLines;
    lines_ = full_ + partial;
    mask_ = lane < partial ? gpu::cast<const uint32_t>(masks)[lane] : 0;
    codes_ = masks + (partial + 3) / 4 * kUnitBytes;
    fetched_ = 0;
  }

  // The blocks of lines that segment s of the tile needs.
  ECMV_GPU_DEVICE int blocks_of(int s) const {
    if constexpr (!kLean) return static_cast<int>(LaneGroup::pick(schedule_, s));
    return LaneGroup::uniform(static_cast<int>(gpu::cast<const uint8_t>(ring_ + kRingBytes)[s]));
  }
  // Call before fetch() of a new tile, and before a barrier: partial lines of the tile before are in the ring.
  ECMV_GPU_DEVICE static void order() {
    if constexpr (kBulk) gpu::order_before_bulk_copies();
  }
  // Starts the copies of the next blocks. The wait() for these comes after `later` other waits.
  ECMV_GPU_DEVICE void fetch(int blocks, int later) {
    const int left = (full_ - fetched_) >> kBlockLinesBits, full = left < 0 ? 0 : blocks < left ? blocks : left;
    if constexpr (kBulk)
      copy_full_lines(full, phase_ + static_cast<uint32_t>(later));
    else
      fetch_full_lines(full);
    ECMV_GPU_NO_UNROLL
    for (int b = full; b < blocks; ++b) fetch_partial_lines();
  }
  // Waits for the bulk copies that were started first. Lanes wait for other copies by the groups that they committed.
  ECMV_GPU_DEVICE void wait() {
    if constexpr (kBulk) {
      arrival(phase_).wait(static_cast<int>(phase_ / kArrivals % 2));
      ++phase_;
    }
  }
  // Lines of the tile that were asked for.
  ECMV_GPU_DEVICE int reach() const { return fetched_ < lines_ ? fetched_ : lines_; }

 private:
  ECMV_GPU_DEVICE gpu::Arrival arrival(uint32_t phase) const {
    return gpu::Arrival(ring_ +
                        (kRingBytes + kScheduleBytes + static_cast<int>(phase % kArrivals) * gpu::Arrival::kBytes));
  }
  // One lane calls this.
  ECMV_GPU_DEVICE void copy_full_lines(int blocks, uint32_t phase) {
    const int bytes = blocks * (kBlockLines * kLineBytes), slot = fetched_ * kLineBytes & (kAllLinesBytes - 1),
              left = kAllLinesBytes - slot;
    if (LaneGroup::lane() == 0) {
      const gpu::Arrival arrival = this->arrival(phase);
      const bool wraps = bytes > left, repeats = wraps || (slot == 0 && bytes > 0);
      arrival.expect(bytes + (repeats ? kRepeatedBytes : 0));
      if (bytes > 0) arrival.copy(ring_ + slot, codes_, wraps ? left + kRepeatedBytes : bytes);
      if (wraps)
        arrival.copy(ring_, codes_ + left, bytes - left);
      else if (repeats)
        arrival.copy(ring_ + kAllLinesBytes, codes_, kRepeatedBytes);
    }
    fetched_ += blocks * kBlockLines;
    codes_ += bytes;
  }
  // All lanes call this.
  ECMV_GPU_DEVICE void fetch_full_lines(int blocks) {
    constexpr int kBlockBytes = kBlockLines * kLineBytes;
    static_assert(kBlockBytes == 16 * kLanes);
    const int lane = LaneGroup::lane();
    gpu::Pointer<const std::byte> from = codes_ + lane * 16;
    const gpu::Pointer<std::byte> ring = ring_ + lane * 16;
    int at = fetched_ * kLineBytes;
    fetched_ += blocks * kBlockLines;
    codes_ += blocks * kBlockBytes;
    const auto copy = [&](int block) {
      const int slot = (at + block * kBlockBytes) & (kAllLinesBytes - 1);
      gpu::copy_async<16>(ring + slot, from + block * kBlockBytes);
      if ((slot | (lane & ~(kRepeatedBytes / 16 - 1))) == 0)
        gpu::copy_async<16>(ring + kAllLinesBytes, from + block * kBlockBytes);
    };
    constexpr int kAtOnce = 4;
    ECMV_GPU_NO_UNROLL
    for (; blocks > 0; blocks -= kAtOnce, at += kAtOnce * kBlockBytes, from += kAtOnce * kBlockBytes) {
      copy(0);
      if (blocks == 1) break;
      copy(1);
      if (blocks == 2) break;
      copy(2);
      if (blocks == 3) break;
      copy(3);
    }
  }
  // Copies each lane's own words, which come without gaps.
  ECMV_GPU_DEVICE void fetch_partial_lines() {
    const int lane = LaneGroup::lane();
    ECMV_GPU_NO_UNROLL
    for (int line = fetched_; line < fetched_ + kBlockLines && line < lines_; ++line) {
      const uint32_t mask = LaneGroup::shuffle(mask_, line - full_);
      const int slot = line & (kRingLines - 1);
      const gpu::Pointer<std::byte> to = ring_ + (slot * kLineBytes + lane * 4);
      const gpu::Pointer<const std::byte> from = codes_ + 4 * LaneGroup::count_before(mask);
      const bool own = (mask >> lane & 1) != 0;
      if (own) gpu::copy_async<4>(to, from);
      if (own && slot < kRepeatedLines) gpu::copy_async<4>(to + kAllLinesBytes, from);
      codes_ += 4 * gpu::popcount(mask);
    }
    fetched_ += kBlockLines;
  }

  gpu::Pointer<std::byte> ring_;
  gpu::Pointer<const std::byte> codes_;  // the next lines
  uint32_t mask_ = 0;                    // partial line number `lane`
  int full_ = 0, lines_ = 0, fetched_ = 0;
  uint32_t schedule_ = 0;  // segment number `lane`
  uint32_t phase_ = 0;     // how many bulk copies have been waited for
};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
