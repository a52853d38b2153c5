// Outlier records on a GPU: 32 lanes follow a list together, four records each, so that one prefix sum gives 128 positions.
// A block's list is cut into shares for several such groups; where a share starts follows from the sums of the distances
// before it.
#pragma once

#include "backends/gpu/lanes.h"
#include "codecs/packed_outliers/format.h"

namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

inline constexpr int kLanes = 32;
using Team = gpu::Lanes<kLanes>;

inline constexpr int kRecordsOfLane = 4, kRecordsOfStep = kLanes * kRecordsOfLane;

struct RecordSections {
  gpu::Pointer<const uint64_t> blocks;
  gpu::Pointer<const uint8_t> distances, deltas;
};

// Those of one block of rows.
struct Records {
  gpu::Pointer<const uint8_t> distances, deltas;
  bool wide_distances, whole_bytes;
  int64_t first, last;

  ECMV_GPU_DEVICE int distance(int64_t i) const { return wide_distances ? gpu::cast<const uint16_t>(distances)[i] : distances[i]; }
  ECMV_GPU_DEVICE int delta(int64_t i) const {
    if (whole_bytes) return static_cast<int8_t>(deltas[i]);
    return ((deltas[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8;
  }
};

ECMV_GPU_DEVICE Records records_of(gpu::Pointer<const uint8_t> header, const RecordSections& sections, int64_t block) {
  return {sections.distances, sections.deltas, header[2] == 2, header[3] == 8, static_cast<int64_t>(sections.blocks[block]),
          static_cast<int64_t>(sections.blocks[block + 1])};
}

// Calls visit(record, row, col) for records [first, last), whose distances begin at element `start` of the block.
template <typename Visit>
ECMV_GPU_DEVICE void visit_records(const Records& records, int64_t first, int64_t last, int start, int cols, Visit visit) {
  if (first >= last) return;
  int base_row = start / cols, base_col = start % cols;
  for (int64_t begin = first; begin < last; begin += kRecordsOfStep) {
    const int64_t mine = begin + Team::lane() * kRecordsOfLane;
    int distances[kRecordsOfLane], total = 0;
    ECMV_GPU_UNROLL
    for (int k = 0; k < kRecordsOfLane; ++k) {
      distances[k] = mine + k < last ? records.distance(mine + k) : 0;
      total += distances[k];
    }
    int row = base_row, col = base_col + Team::prefix_add(total);
    ECMV_GPU_UNROLL
    for (int k = 0; k < kRecordsOfLane; ++k) {
      col += distances[k];
      for (; col >= cols; col -= cols) ++row;
      if (mine + k < last) visit(mine + k, row, col);
    }
    base_row = Team::shuffle(row, kLanes - 1);
    base_col = Team::shuffle(col, kLanes - 1);
  }
}

// The records of wave number `team` of `teams` and where they start: whole steps, so that few records are one wave's.
// sums: one int32 a wave, in shared memory. All threads of the block take part.
struct Share {
  int64_t first, last;
  int start;
};
ECMV_GPU_DEVICE Share share_records(const Records& records, int team, int teams, gpu::Pointer<int32_t> sums) {
  const int64_t steps = (records.last - records.first + kRecordsOfStep - 1) / kRecordsOfStep;
  const int64_t each = (steps + teams - 1) / teams * kRecordsOfStep;
  Share share{records.first + team * each, records.first + (team + 1) * each, 0};
  if (share.first > records.last) share.first = records.last;
  if (share.last > records.last) share.last = records.last;
  int sum = 0;
  for (int64_t i = share.first + Team::lane(); i < share.last; i += kLanes) sum += records.distance(i);
  sum = Team::reduce_add(sum);
  if (Team::lane() == 0) sums[team] = sum;
  gpu::sync_block();
  for (int t = 0; t < team; ++t) share.start += sums[t];
  return share;
}

}  // namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE
