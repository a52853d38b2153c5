// Eight rows of a tile. Their words are copied together, a walk of scalar look-ups makes some segments' entries
// (walk.h), and a function that the launch names stores or multiplies them. Per-target header.
#if defined(ECMV_CODECS_QUAD_HUFFMAN_OCTETS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_CODECS_QUAD_HUFFMAN_OCTETS_INL_H_
#undef ECMV_CODECS_QUAD_HUFFMAN_OCTETS_INL_H_
#else
#define ECMV_CODECS_QUAD_HUFFMAN_OCTETS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/kernel.h"
#include "codecs/quad_huffman/format/schedule.h"
#include "codecs/quad_huffman/format/stored.h"
#include "codecs/quad_huffman/simd/float_pieces-inl.h"
#include "codecs/quad_huffman/simd/octet_patches.h"
#include "codecs/quad_huffman/simd/pieces-inl.h"
#include "codecs/quad_huffman/simd/walk.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Copies columns of lanes [first_lane, + kWalkLanes) of a tile's lines, word after word of each lane.
HWY_INLINE void CopyWords(const TileCodes& tile, int first_lane, Walkers& walkers) {
  const uint8_t* HWY_RESTRICT codes = tile.full();
  const int64_t lines = tile.full_lines();
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> d64;
  for (int lane = 0; lane < kWalkLanes; lane += 4) {
    const uint8_t* HWY_RESTRICT from = codes + 4 * (first_lane + lane);
    int64_t line = 0;
    for (; line + 4 <= lines; line += 4, from += 4 * kLineBytes) {
      const auto row = [&](int i)
                           HWY_ATTR { return hn::LoadU(d, reinterpret_cast<const uint32_t*>(from + i * kLineBytes)); };
      const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
      const auto a = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1)),
                 b = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
      const auto e = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1)),
                 f = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
      const auto to = [&](int i)
                          HWY_ATTR { return reinterpret_cast<uint64_t*>(walkers.words[lane + i].data() + 4 * line); };
      hn::StoreU(hn::InterleaveLower(d64, a, b), d64, to(0));
      hn::StoreU(hn::InterleaveUpper(d64, a, b), d64, to(1));
      hn::StoreU(hn::InterleaveLower(d64, e, f), d64, to(2));
      hn::StoreU(hn::InterleaveUpper(d64, e, f), d64, to(3));
    }
  }
  for (int64_t line = lines; line < tile.lines(); ++line) {
    const uint32_t mask = tile.mask(line);
    const uint8_t* HWY_RESTRICT next = tile.partial(line, first_lane);
    for (int lane = 0; lane < kWalkLanes; ++lane) {
      static constexpr uint32_t kNone = 0;
      const uint32_t there = mask >> (first_lane + lane) & 1;
      // Chooses an address without a branch, because no predictor knows which lanes have a word.
      std::memcpy(walkers.words[lane].data() + 4 * line, there ? next : reinterpret_cast<const uint8_t*>(&kNone), 4);
      next += 4 * there;
    }
  }
}

// A function of its own, so that eight windows, table, mask and output share the registers with nothing else.
template <int kTakes>
HWY_NOINLINE void Walk(Walkers& walkers, const uint32_t* HWY_RESTRICT table, uint64_t mask, int symbols,
                       std::array<uint32_t, kChunkSymbols>* HWY_RESTRICT entries) {
  walk<HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2, kTakes>(walkers, table, mask, symbols, entries);
}

struct Scratch {
  Walkers walkers;
  alignas(64) std::array<std::array<uint32_t, kChunkSymbols>, kWalkLanes> entries;
  alignas(64) std::array<int8_t, kMostSegmentCols> last_cols;
  // Sums of the rows of the eight lanes between their chunks.
  alignas(64) std::array<std::array<int32_t, 8>, kWalkLanes> acc;
  // Elements of a chunk and the tile's patches, for results that go past the caches.
  alignas(64) std::array<std::array<uint8_t, kChunkCols>, kWalkLanes> elements;
  OctetPatches patches;
  int next_patch = 0;  // the octet's
  // bf16 and f8: raw words of the segment in hand, and elements of a last segment.
  alignas(64) FloatWords float_words;
  alignas(64) std::array<uint16_t, kMostSegmentCols> last_floats;
};

// Eight lanes of a tile's segments [segment, + count).
struct Chunk {
  int64_t group, column;
  int first_lane, lanes;  // lanes with a row
  int64_t segment, count;
  const TileIndex& tile;
};

struct Launch;
// Only these parts are compiled for each number of look-ups a round and for each form.
using WalkFunction = void (*)(Walkers&, const uint32_t*, uint64_t, int, std::array<uint32_t, kChunkSymbols>*);
using UseFunction = void (*)(const Launch&, const Chunk&, Scratch&);

// Decoded elements of bf16 or f8 go here.
struct FloatPlace {
  std::byte* first = nullptr;
  int64_t stride = 0, first_row = 0, first_col = 0;  // in elements
  bool far = false;                                  // not in a near cache
  template <class Bits>
  Bits* at(int64_t row, int64_t col) const {
    return reinterpret_cast<Bits*>(first) + (row - first_row) * stride + (col - first_col);
  }
};

struct Launch {
  Stored stored{};
  WalkFunction walk = nullptr;
  UseFunction use_entries = nullptr;
  const uint32_t* table = nullptr;
  backends::Rows rows;
  int8_t* decoded = nullptr;  // rows.begin's first element
  FloatPlace floats = {};     // instead, for bf16 and f8
  bool past_caches = false;   // through a buffer, in which patches are applied: results are not read soon
  const int8_t* x = nullptr;
  int32_t* y = nullptr;  // all rows
  int32_t offset = 0;    // (lowest - bias) * sum(x)
};

// Prefetches into the L1 cache, while the walk goes on, the memory that UseEntries and the copying of the next eight
// lanes' words will touch.
HWY_INLINE void PrefetchForUse(const Launch& launch, const Chunk& chunk) {
  const auto& [group, column, first_lane, lanes, segment, count, tile] = chunk;
  const Stored& stored = launch.stored;
  const int64_t lines = tile.full_lines, lines_of_segment = lines / stored.segments_of(column) + 1;
  const uint8_t* codes = stored.codes + (tile.first_unit + tile.mask_units()) * kUnitBytes +
                         (first_lane + kWalkLanes == kLanes ? lines : 0) * kLineBytes +
                         4 * ((first_lane + kWalkLanes) % kLanes);
  for (int64_t line = segment * lines_of_segment; line < (segment + count) * lines_of_segment; ++line)
    __builtin_prefetch(codes + line * kLineBytes, 0, 3);
  const uint8_t* raw =
      stored.raw_of(group, column * stored.tile_segments + segment) + stored.raw_lane_bytes() * first_lane;
  const int64_t raw_bytes = count * raw_bytes_of_segment(stored.symbol_cols, stored.form);
  for (int64_t at = 0; at < raw_bytes; at += stored.raw_lane_bytes() * kLanes)
    for (int line = 0; line < kWalkLanes * stored.raw_lane_bytes(); line += 64)
      __builtin_prefetch(raw + at + line, 0, 3);
  const bool floats = launch.floats.first != nullptr, halves = stored.element_bytes() == 2;
  if ((launch.decoded != nullptr && !launch.past_caches) || (floats && launch.floats.far)) {
    const int64_t first_col = column * stored.tile_cols + segment * stored.segment_cols(),
                  end = std::min(stored.cols, first_col + count * stored.segment_cols());
    for (int64_t row = group * kLanes + first_lane, last = row + lanes; row < last; ++row) {
      const int8_t* to = !floats  ? launch.decoded + (row - launch.rows.begin) * stored.cols + first_col
                         : halves ? reinterpret_cast<const int8_t*>(launch.floats.at<uint16_t>(row, first_col))
                                  : launch.floats.at<int8_t>(row, first_col);
      const int64_t bytes = stored.element_bytes() * (end - first_col);
      for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(to + at, 1, 2);
    }
  }
}

// Prefetches into the L2 cache a share of the next tile, most likely as large as this one, for the segments [segment, +
// count) of eight lanes. More at once would wait for the cache's few outstanding misses.
HWY_INLINE void PrefetchNextTile(const Stored& stored, const Chunk& chunk) {
  const auto& [group, column, first_lane, lanes, segment, count, tile] = chunk;
  const int64_t raw_bytes = raw_bytes_of_segment(stored.symbol_cols, stored.form);
  const int64_t segments = stored.segments_of(column), shares = segments * kLanes / kWalkLanes;
  const int64_t share = first_lane / kWalkLanes * segments + segment;
  const uint8_t* raw = stored.raw_of(group, column * stored.tile_segments) + segments * raw_bytes +
                       share * raw_bytes * kWalkLanes / kLanes;
  for (int64_t at = 0; at < count * raw_bytes * kWalkLanes / kLanes; at += 64) __builtin_prefetch(raw + at, 0, 2);
  const int64_t bytes = tile.full_lines * kLineBytes;
  const uint8_t* codes = stored.codes + tile.first_unit * kUnitBytes + bytes;
  for (int64_t at = bytes * share / shares; at < bytes * (share + count) / shares; at += 64)
    __builtin_prefetch(codes + at, 0, 2);
}

// Decodes eight lanes of a tile. Most lanes never lag, so several segments are walked at once if no lane may have to be
// moved in them.
template <bool kStores>
HWY_INLINE void Octet(const Launch& launch, int64_t group, int64_t column, int first_lane, const TileIndex& tile,
                      const TileCodes& codes, const std::array<int64_t, kMostSegments>& reach, Scratch& scratch) {
  const Stored& stored = launch.stored;
  const int64_t segments = stored.segments_of(column);
  const int lanes = static_cast<int>(std::min<int64_t>(kWalkLanes, stored.rows - group * kLanes - first_lane));
  Walkers& walkers = scratch.walkers;
  CopyWords(codes, first_lane, walkers);
  for (int lane = 0; lane < kWalkLanes; ++lane) walkers.place(lane, 0);
  if constexpr (!kStores) std::memset(scratch.acc.data(), 0, sizeof(scratch.acc));
  scratch.next_patch = 0;
  const uint64_t mask = (uint64_t{1} << stored.table_bits) - 1;
  for (int64_t s = 0; s < segments;) {
    const auto floor_of = [&](int64_t segment) { return least_position(reach.data(), segment, segments); };
    const int64_t least = walkers.least_position();
    int64_t count = std::min<int64_t>(kChunkCols / stored.segment_cols(), segments - s);
    while (count > 1 && floor_of(s + count - 1) > least) count = (count + 1) / 2;
    if (floor_of(s) > least)
      for (int lane = 0; lane < kWalkLanes; ++lane) walkers.place(lane, std::max(walkers.position(lane), floor_of(s)));
    const Chunk chunk{group, column, first_lane, lanes, s, count, tile};
    PrefetchNextTile(stored, chunk);
    PrefetchForUse(launch, chunk);
    launch.walk(walkers, launch.table, mask, static_cast<int>(count) * kSegmentSymbols, scratch.entries.data());
    launch.use_entries(launch, chunk, scratch);
    s += count;
  }
  if constexpr (!kStores)
    for (int lane = 0; lane < lanes; ++lane) {
      uint32_t& y = reinterpret_cast<uint32_t*>(launch.y)[group * kLanes + first_lane + lane];
      y += static_cast<uint32_t>(hn::ReduceSum(DI32(), hn::Load(DI32(), scratch.acc[lane].data())));
    }
}

}  // namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_CODECS_QUAD_HUFFMAN_OCTETS_INL_H_
