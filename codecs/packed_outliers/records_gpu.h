// Outlier records on a GPU: 32 lanes follow a list together, four records each, so that one prefix sum gives 128
// positions. A block's list is cut into shares for several such groups; the sums of the distances before a share tell
// where it starts.
#pragma once

#include "codecs/packed_outliers/fields_gpu.h"

namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE {

inline constexpr int kRecordsOfLane = 4, kRecordsOfStep = kLanes * kRecordsOfLane;

struct RecordSections {
  gpu::Pointer<const uint64_t> blocks;
  gpu::Pointer<const uint8_t> distances, deltas;
};

// The records of one block of rows.
struct Records {
  gpu::Pointer<const uint8_t> distances, deltas;
  bool wide_distances, whole_bytes;
  int64_t first, last;

  ECMV_GPU_DEVICE int distance(int64_t i) const {
    return wide_distances ? gpu::cast<const uint16_t>(distances)[i] : distances[i];
  }
  ECMV_GPU_DEVICE int delta(int64_t i) const {
    if (whole_bytes) return static_cast<int8_t>(deltas[i]);
    return ((deltas[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8;
  }
};

ECMV_GPU_DEVICE Records records_of(gpu::Pointer<const uint8_t> header, const RecordSections& sections, int64_t block) {
  return {sections.distances,
          sections.deltas,
          header[2] == 2,
          header[3] == 8,
          static_cast<int64_t>(sections.blocks[block]),
          static_cast<int64_t>(sections.blocks[block + 1])};
}

// Four neighbouring records, loaded at once.
struct Quad {
  int distances[kRecordsOfLane], deltas[kRecordsOfLane];
};

// Records at..at + 3, `at` a multiple of 4. Records outside [first, last) move nowhere and add nothing.
ECMV_GPU_DEVICE Quad load_quad(const Records& records, int64_t at, int64_t first, int64_t last) {
  Quad quad;
  if (at + kRecordsOfLane <= last) {
    gpu::uint2 distances{0, 0};
    if (records.wide_distances)
      distances = gpu::cast<const gpu::uint2>(records.distances)[at / 4];
    else
      distances.x = gpu::cast<const uint32_t>(records.distances)[at / 4];
    const uint32_t deltas = records.whole_bytes ? gpu::cast<const uint32_t>(records.deltas)[at / 4]
                                                : gpu::cast<const uint16_t>(records.deltas)[at / 4];
    ECMV_GPU_UNROLL
    for (int k = 0; k < kRecordsOfLane; ++k) {
      quad.distances[k] = records.wide_distances ? (k < 2 ? distances.x : distances.y) >> (k % 2 * 16) & 0xFFFF
                                                 : distances.x >> (k * 8) & 0xFF;
      quad.deltas[k] = records.whole_bytes ? static_cast<int8_t>(deltas >> (k * 8))
                                           : static_cast<int32_t>(deltas << (28 - k * 4)) >> 28;
    }
  } else {
    ECMV_GPU_UNROLL
    for (int k = 0; k < kRecordsOfLane; ++k) {
      quad.distances[k] = at + k < last ? records.distance(at + k) : 0;
      quad.deltas[k] = at + k < last ? records.delta(at + k) : 0;
    }
  }
  ECMV_GPU_UNROLL
  for (int k = 0; k < kRecordsOfLane; ++k)
    if (at + k < first) quad.distances[k] = quad.deltas[k] = 0;
  return quad;
}

// Records [first, last), whose distances begin at element `start` of the block. Requests the first step's at once.
class RecordWalk {
 public:
  ECMV_GPU_DEVICE RecordWalk(const Records& records, int64_t first, int64_t last, int start)
      : records_(records),
        first_(first),
        last_(last),
        begin_(first / kRecordsOfLane * kRecordsOfLane),
        start_(start),
        next_(load(begin_)) {}

  // Calls visit(record, row, col, delta) for each record, after it has requested the next step's.
  template <typename Visit>
  ECMV_GPU_DEVICE void run(int cols, Visit visit) {
    run_together(cols, [&](bool there, int64_t record, int row, int col, int delta, int) {
      if (there) visit(record, row, col, delta);
    });
  }
  // Calls visit(whether there is one, record, row, col, delta, lanes) in all lanes together: lanes from `lanes` on have
  // none.
  template <typename Visit>
  ECMV_GPU_DEVICE void run_together(int cols, Visit visit) {
    if (first_ >= last_) return;
    int base_row = start_ / cols, base_col = start_ % cols;
    for (; begin_ < last_; begin_ += kRecordsOfStep) {
      const int64_t mine = begin_ + LaneGroup::lane() * kRecordsOfLane;
      const int64_t left = (last_ - begin_ + kRecordsOfLane - 1) / kRecordsOfLane;
      const int lanes = left < kLanes ? static_cast<int>(left) : kLanes;
      const Quad quad = next_;
      next_ = load(begin_ + kRecordsOfStep);
      int total = 0;
      ECMV_GPU_UNROLL
      for (int k = 0; k < kRecordsOfLane; ++k) total += quad.distances[k];
      int row = base_row, col = base_col + LaneGroup::prefix_add(total);
      ECMV_GPU_UNROLL
      for (int k = 0; k < kRecordsOfLane; ++k) {
        col += quad.distances[k];
        for (; col >= cols; col -= cols) ++row;
        visit(mine + k >= first_ && mine + k < last_, mine + k, row, col, quad.deltas[k], lanes);
      }
      base_row = LaneGroup::shuffle(row, kLanes - 1);
      base_col = LaneGroup::shuffle(col, kLanes - 1);
    }
  }

 private:
  ECMV_GPU_DEVICE Quad load(int64_t begin) const {
    return load_quad(records_, begin + LaneGroup::lane() * kRecordsOfLane, first_, last_);
  }

  const Records& records_;
  int64_t first_, last_, begin_;
  int start_;
  Quad next_;
};

// The records of one of the block's lane groups, and where they start. Shares are whole steps, so a short list goes to
// one group. `sums` has one int32 a lane group, in shared memory. All threads of the block take part.
struct RecordShare {
  int64_t first, last;
  int start;
};
ECMV_GPU_DEVICE RecordShare share_records(const Records& records, int lane_group, int lane_groups,
                                          gpu::Pointer<int32_t> sums) {
  const int64_t steps = (records.last - records.first + kRecordsOfStep - 1) / kRecordsOfStep;
  const int64_t each = (steps + lane_groups - 1) / lane_groups * kRecordsOfStep;
  RecordShare share{records.first + lane_group * each, records.first + (lane_group + 1) * each, 0};
  if (share.first > records.last) share.first = records.last;
  if (share.last > records.last) share.last = records.last;
  int sum = 0;
  for (int64_t i = share.first + LaneGroup::lane(); i < share.last; i += kLanes) sum += records.distance(i);
  sum = LaneGroup::reduce_add(sum);
  if (LaneGroup::lane() == 0) sums[lane_group] = sum;
  gpu::sync_block();
  for (int t = 0; t < lane_group; ++t) share.start += sums[t];
  return share;
}

}  // namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE
