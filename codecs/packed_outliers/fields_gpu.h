// The fields of packed_outliers on a GPU: planes to bytes, and products of row segments. A segment is the part of a row
// that 32 lanes load, a chunk of every plane each: 4096 columns with chunks of 16 bytes, stored without gaps. A lane
// group keeps one segment of x in registers and multiplies it by the same segment of many rows. A feed brings these:
// the ring (several rows ahead, asynchronously, in shared memory) or registers (one row ahead).
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "codecs/packed_outliers/format.h"

namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

inline constexpr int kLanes = 32;
using LaneGroup = gpu::Lanes<kLanes>;

struct Fields {
  gpu::Pointer<const uint8_t> bytes;
  int64_t rows;
  int cols, row_bytes;
  int tail_width;  // of a strip of the group that is not full
};

// A chunk is one load: uint4 or uint32_t.
template <typename Chunk>
inline constexpr int kWords = static_cast<int>(sizeof(Chunk) / 4);

ECMV_GPU_DEVICE uint32_t word(gpu::uint4 chunk, int i) {
  return i == 0 ? chunk.x : i == 1 ? chunk.y : i == 2 ? chunk.z : chunk.w;
}
ECMV_GPU_DEVICE uint32_t word(uint32_t chunk, int) { return chunk; }

// Four fields of strip `strip`, from the words of all planes at the same four columns. The arguments are constants once
// the surrounding loops are unrolled, and a plane costs a shift and an and-or.
template <int kBits, typename Chunk>
ECMV_GPU_DEVICE uint32_t fields_of(const Chunk (&planes)[kBits], int strip, int i) {
  uint32_t fields = 0;
  int offset = 0;
  ECMV_GPU_UNROLL
  for (int plane = 8; plane > 0; plane /= 2) {
    if (!(kBits & plane)) continue;
    const uint32_t stored = word(planes[offset + strip % plane], i);
    const int right = strip / plane * plane - offset;
    const uint32_t mask = 0x01010101u * (((1u << plane) - 1) << offset);
    fields |= (right >= 0 ? stored >> (right & 31) : stored << (-right & 31)) & mask;
    offset += plane;
  }
  return fields;
}

template <int kBits>
ECMV_GPU_DEVICE int32_t dot_fields(uint32_t fields, uint32_t x, int32_t sum) {
  if constexpr (kBits == 8) return gpu::dot4_unsigned_signed(fields, static_cast<int32_t>(x), sum);
  return gpu::dot4(static_cast<int32_t>(fields), static_cast<int32_t>(x),
                   sum);  // at most 127: one instruction everywhere
}

template <int kBits, typename Chunk>
struct Segment {
  static constexpr int kChunkBytes = sizeof(Chunk), kWidth = static_cast<int>(kStripCols),
                       kChunks = kWidth / kChunkBytes;
  static constexpr int kGroups = kLanes / kChunks, kGroupBytes = kBits * kWidth, kBytes = kGroups * kGroupBytes;
  // In shared memory, groups with an even number of planes lie a strip further apart; otherwise neighbours would meet
  // in the same banks.
  static constexpr int kGap = kBits % 2 == 0 ? kWidth : 0, kSlotBytes = kGroups * (kGroupBytes + kGap);
};

template <int kBits, typename Chunk>
ECMV_GPU_BOTH int segments_of(int cols, int tail_width) {
  using S = Segment<kBits, Chunk>;
  return (cols / static_cast<int>(kGroupCols) * S::kChunks + tail_width / S::kChunkBytes + kLanes - 1) / kLanes;
}

// The place of this lane's chunks of a segment.
struct ChunkPlace {
  bool any;   // whether it has chunks
  int group;  // in the segment
  int first;  // bytes from the group's first byte to the first plane's chunk
  int width;  // of its strips: bytes from a plane's chunk to the next plane's, columns from a strip to the next
  int col;    // first column
};

template <int kBits, typename Chunk>
ECMV_GPU_DEVICE ChunkPlace place_in(const Fields& fields, int segment) {
  using S = Segment<kBits, Chunk>;
  const int groups = fields.cols / static_cast<int>(kGroupCols), begin = segment * S::kGroups,
            group = LaneGroup::lane() / S::kChunks;
  const int first = LaneGroup::lane() % S::kChunks * S::kChunkBytes;
  if (begin + group < groups)
    return {true, group, first, S::kWidth, (begin + group) * static_cast<int>(kGroupCols) + first};
  // After the last full group, the remaining lanes hold the chunks of several strips of the tail.
  const int tail = (LaneGroup::lane() - (groups - begin) * S::kChunks) * S::kChunkBytes;
  const bool any = tail < fields.tail_width;
  return {any, groups - begin, any ? tail : 0, fields.tail_width,
          any ? groups * static_cast<int>(kGroupCols) + tail : 0};
}

// This lane's chunks of a segment that begins at `at`.
template <int kBits, typename Chunk>
ECMV_GPU_DEVICE void load_planes(gpu::Pointer<const uint8_t> at, const ChunkPlace& place, Chunk (&planes)[kBits]) {
  const gpu::Pointer<const uint8_t> first = at + (place.group * Segment<kBits, Chunk>::kGroupBytes + place.first);
  ECMV_GPU_UNROLL
  for (int p = 0; p < kBits; ++p) planes[p] = gpu::load_streaming(gpu::cast<const Chunk>(first + p * place.width));
}

// This lane's part of a segment of x.
template <typename Chunk>
struct Inputs {
  Chunk strips[kStrips];

  ECMV_GPU_DEVICE Inputs(gpu::Pointer<const int8_t> x, const ChunkPlace& place) {
    ECMV_GPU_UNROLL
    for (int strip = 0; strip < static_cast<int>(kStrips); ++strip)
      strips[strip] = place.any ? *gpu::cast<const Chunk>(x + (place.col + strip * place.width)) : Chunk{};
  }
  ECMV_GPU_DEVICE int32_t sum() const {
    int32_t sum = 0;
    ECMV_GPU_UNROLL
    for (int strip = 0; strip < static_cast<int>(kStrips); ++strip) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < kWords<Chunk>; ++i)
        sum = gpu::dot4(0x01010101, static_cast<int32_t>(word(strips[strip], i)), sum);
    }
    return sum;
  }
};

// This lane's part of one row's product. Lanes without chunks may hold anything in their planes, for their x is 0.
template <int kBits, typename Chunk>
ECMV_GPU_DEVICE int32_t multiply(const Chunk (&planes)[kBits], const Inputs<Chunk>& inputs) {
  int32_t sum = 0;
  ECMV_GPU_UNROLL
  for (int strip = 0; strip < static_cast<int>(kStrips); ++strip) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < kWords<Chunk>; ++i)
      sum = dot_fields<kBits>(fields_of<kBits>(planes, strip, i), word(inputs.strips[strip], i), sum);
  }
  return sum;
}

// A lane group's rows of one segment: `in_block` rows of every 16-row block, step_bytes apart; jump_bytes lead to the
// next block.
struct RowWalk {
  gpu::Pointer<const uint8_t> at;  // the segment in the next row
  int64_t step_bytes, jump_bytes;  // jump: from past a block's last row
  int in_block, left;
  int done = 0;  // rows of this block

  ECMV_GPU_DEVICE void advance() {
    at = at + step_bytes;
    --left;
    if (++done == in_block) {
      at = at + jump_bytes;
      done = 0;
    }
  }
};

// While one row of the segment is multiplied, kStages - 1 rows are under way. The lane group copies whole lines, so the
// lane that copied a byte is not the one that reads it; hence the barriers.
template <int kBits, typename Chunk, int kStages>
struct RingFeed {
  using S = Segment<kBits, Chunk>;
  static constexpr int kSharedBytes = kStages * S::kSlotBytes;

  gpu::Pointer<std::byte> ring;
  RowWalk walk;
  int bytes, read = 0, write = 0;  // bytes: of the segment

  ECMV_GPU_DEVICE RingFeed(gpu::Pointer<std::byte> shared, const RowWalk& rows, const ChunkPlace&, int segment_bytes)
      : ring(shared), walk(rows), bytes(segment_bytes) {
    LaneGroup::sync();
    ECMV_GPU_UNROLL
    for (int i = 0; i < kStages - 1; ++i) copy_row();
  }
  ECMV_GPU_DEVICE void copy_row() {
    if (walk.left > 0) {
      ECMV_GPU_UNROLL
      for (int p = 0; p < kBits; ++p) {
        const int at = (p * kLanes + LaneGroup::lane()) * S::kChunkBytes;
        if (at < bytes)
          gpu::copy_async<S::kChunkBytes>(ring + (write + at + at / S::kGroupBytes * S::kGap),
                                          gpu::cast<const std::byte>(walk.at + at));
      }
      walk.advance();
    }
    gpu::commit_copies();
    write = write == (kStages - 1) * S::kSlotBytes ? 0 : write + S::kSlotBytes;
  }
  ECMV_GPU_DEVICE void next(const ChunkPlace& place, Chunk (&planes)[kBits]) {
    gpu::wait_copies<kStages - 2>();
    LaneGroup::sync();
    copy_row();
    const gpu::Pointer<const std::byte> at = ring + (read + place.group * (S::kGroupBytes + S::kGap) + place.first);
    ECMV_GPU_UNROLL
    for (int p = 0; p < kBits; ++p) planes[p] = *gpu::cast<const Chunk>(at + p * place.width);
    read = read == (kStages - 1) * S::kSlotBytes ? 0 : read + S::kSlotBytes;
  }
};

// One row is under way while another is multiplied: for devices with little shared memory or without asynchronous
// copies.
template <int kBits, typename Chunk>
struct RegisterFeed {
  static constexpr int kSharedBytes = 0;

  RowWalk walk;
  Chunk ahead[kBits];

  ECMV_GPU_DEVICE RegisterFeed(gpu::Pointer<std::byte>, const RowWalk& rows, const ChunkPlace& place, int)
      : walk(rows) {
    load_row(place);
  }
  ECMV_GPU_DEVICE void load_row(const ChunkPlace& place) {
    if (walk.left <= 0) return;
    load_planes(walk.at, place, ahead);
    walk.advance();
  }
  ECMV_GPU_DEVICE void next(const ChunkPlace& place, Chunk (&planes)[kBits]) {
    ECMV_GPU_UNROLL
    for (int p = 0; p < kBits; ++p) planes[p] = ahead[p];
    load_row(place);
  }
};

}  // namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE
