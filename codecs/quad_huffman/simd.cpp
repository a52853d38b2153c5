// SIMD kernels of quad_huffman. Eight rows of a tile at a time: their words are copied together, a walk of scalar look-ups gives
// some segments' entries (walk.h), then vectors split the entries into high parts, merge the raw bits, and store or multiply.
// Vectors of up to 32 bytes: 8 quads have their raw bits together, and the walk is two thirds of the work, so wider ones would gain little.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/kernel.h"
#include "codecs/quad_huffman/octet_patches.h"
#include "codecs/quad_huffman/schedule.h"
#include "codecs/quad_huffman/stored.h"
#include "codecs/quad_huffman/walk.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/quad_huffman/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using backends::KernelCall;

using D8 = hn::CappedTag<uint8_t, 32>;
using DI8 = hn::RebindToSigned<D8>;
using D16 = hn::Repartition<uint16_t, D8>;
using DI16 = hn::RebindToSigned<D16>;
using D32 = hn::Repartition<uint32_t, D8>;
using DI32 = hn::RebindToSigned<D32>;
using V8 = hn::Vec<D8>;
using V32 = hn::Vec<D32>;
using VI32 = hn::Vec<DI32>;

// Columns whose raw words are neighbours: two halves of 8 quads.
inline constexpr int kPieceCols = 64;
inline constexpr int kPieces = kSegmentCols / kPieceCols;
inline constexpr int lane_raw_bytes(int raw_bits) { return 4 * raw_unit_words(4, raw_bits); }
inline constexpr int64_t raw_bytes_of_segment(int raw_bits) { return quad_huffman::raw_bytes_of_segment(4, raw_bits); }

// Quads of a vector of bytes; two vectors or one are half a piece.
inline constexpr int kVectorQuads = static_cast<int>(HWY_MAX_LANES_D(D32));
inline constexpr int kParts = 8 / kVectorQuads;
static_assert(kParts == 1 || kParts == 2);

// Quads 4 * block .. + 3 of 8 have lanes of `low` where block is 0, of `high` where it is 1.
HWY_INLINE V32 FromBlocks(V32 low, V32 high, int part) {
  if constexpr (kParts == 1) return hn::ConcatUpperLower(D32(), high, low);
  return part == 0 ? low : high;
}

// The words of 8 quads of which each is that of two neighbours.
HWY_INLINE V32 Pairs(uint32_t word0, uint32_t word1, uint32_t word2, uint32_t word3, int part) {
  const D32 d32;
  const hn::Repartition<uint64_t, D32> d64;
  const auto two = [&](uint32_t first, uint32_t second) HWY_ATTR {
    return hn::BitCast(d32, hn::OddEven(hn::BitCast(d64, hn::Set(d32, second)), hn::BitCast(d64, hn::Set(d32, first))));
  };
  return FromBlocks(two(word0, word1), two(word2, word3), part);
}

// The raw words of the 8 quads of a group of 32 columns, loaded where they are used: a broadcast from memory costs no vector operation.
template <int kRawBits, int kGroup, int kFirst = 0>
struct RawWords {
  const uint8_t* HWY_RESTRICT segment;
  HWY_INLINE uint32_t operator[](int j) const {
    uint32_t word;
    std::memcpy(&word, segment + raw_word_offset(4, kRawBits, kGroup, kFirst + j), 4);
    return word;
  }
};

// One plane of kPlane bits of the quads of `part`: the words that hold them, shifted so that a quad's field comes first.
template <int kPlane, class Words>
HWY_INLINE V8 PlaneOf(Words words, int part) {
  const D32 d32;
  alignas(32) static constexpr uint32_t kShifts[4][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {0, 2, 4, 6, 0, 2, 4, 6}, {0, 3, 0, 3, 0, 3, 0, 3}, {0, 4, 0, 4, 0, 4, 0, 4}};
  const V32 shifts = hn::Load(d32, kShifts[kPlane - 1] + 4 * part);
  V32 stored;
  if constexpr (kPlane == 1) stored = hn::Set(d32, words[0]);
  if constexpr (kPlane == 2) stored = FromBlocks(hn::Set(d32, words[0]), hn::Set(d32, words[1]), part);
  if constexpr (kPlane == 3) {
    const uint32_t last = (words[0] >> 6 & 0x03030303u) | (words[1] >> 4 & 0x0c0c0c0cu) | (words[2] >> 2 & 0x30303030u);
    stored = Pairs(words[0], words[1], words[2], last, part);
  }
  if constexpr (kPlane == 4) stored = Pairs(words[0], words[1], words[2], words[3], part);
  return hn::BitCast(D8(), hn::Shr(stored, shifts));
}

// t | the raw bits of the quads of `part` of a group of 32 columns.
template <int kRawBits, int kGroup>
HWY_INLINE V8 MergeRaw(V8 t, const uint8_t* HWY_RESTRICT segment, int part) {
  const D8 d8;
  constexpr int kFirst = kPlanes[kRawBits][0], kSecond = kPlanes[kRawBits][1];
  if constexpr (kFirst > 0) t = hn::OrAnd(t, PlaneOf<kFirst>(RawWords<kRawBits, kGroup>{segment}, part), hn::Set(d8, (1 << kFirst) - 1));
  if constexpr (kSecond > 0) {
    const V8 second = hn::BitCast(d8, hn::ShiftLeft<kFirst>(hn::BitCast(D16(), PlaneOf<kSecond>(RawWords<kRawBits, kGroup, kFirst>{segment}, part))));
    t = hn::OrAnd(t, second, hn::Set(d8, ((1 << kSecond) - 1) << kFirst));
  }
  return t;
}

// What becomes of the offsets t = w - lowest.
enum class Use {
  dot_small,  // acc += t . x, all t < 128
  dot,        // acc += t . x
  store,      // decoded = lowest + t
  stream,     // the same through a buffer, in which patches are applied, and past the caches: nothing is read of where it goes
};
constexpr bool stores(Use use) { return use == Use::store || use == Use::stream; }

template <bool kSmall>
HWY_INLINE VI32 Dot(V8 t, hn::Vec<DI8> x, VI32 acc) {
  const DI32 di32;
#if HWY_ARCH_X86
  if constexpr (HWY_TARGET <= HWY_AVX3_DL) return hn::SumOfMulQuadAccumulate(di32, t, x, acc);  // VNNI
  const DI16 di16;
  if constexpr (kSmall)  // 127 * 128 * 2 fits int16: the pairwise product never saturates
    return hn::Add(acc, hn::WidenMulPairwiseAdd(di32, hn::SatWidenMulPairwiseAdd(di16, t, x), hn::Set(di16, 1)));
  const auto t16 = hn::BitCast(D16(), t);
  const auto x16 = hn::BitCast(di16, x);
  const auto even = hn::WidenMulPairwiseAdd(di32, hn::BitCast(di16, hn::And(t16, hn::Set(D16(), 0xff))), hn::ShiftRight<8>(hn::ShiftLeft<8>(x16)));
  const auto odd = hn::WidenMulPairwiseAdd(di32, hn::BitCast(di16, hn::ShiftRight<8>(t16)), hn::ShiftRight<8>(x16));
  return hn::Add(acc, hn::Add(even, odd));
#else
  return hn::SumOfMulQuadAccumulate(di32, t, x, acc);
#endif
}

// Piece kPiece of a segment of one row, whose raw words are at `segment`.
template <int kRawBits, Use kUse, int kPiece>
HWY_INLINE void Piece(const uint32_t* HWY_RESTRICT entries, const uint8_t* HWY_RESTRICT segment, V8 lowest, const int8_t* HWY_RESTRICT x, int8_t* HWY_RESTRICT decoded, VI32& acc) {
  const D8 d8;
  const DI8 di8;
  const D16 d16;
  const D32 d32;
  for (int part = 0; part < kParts; ++part) {
    // Quads of both halves, of which every block of 128 bits gets 4 and 4: interleaving then leaves whole halves.
    const auto quads_of = [&](int half) HWY_ATTR {
      return hn::BitCast(DI32(), hn::ShiftRight<16>(hn::LoadU(d32, entries + 8 * half + kVectorQuads * part)));
    };
    const auto quads = hn::ReorderDemote2To(d16, quads_of(0), quads_of(1));
    constexpr uint8_t kHighMask = static_cast<uint8_t>(15u << kRawBits);
    V8 even, odd;  // h << B of columns 0 and 2, and of 1 and 3
    if constexpr (kRawBits <= 4)
      odd = hn::BitCast(d8, hn::ShiftRight<(kRawBits <= 4 ? 4 - kRawBits : 0)>(quads));
    else
      odd = hn::BitCast(d8, hn::ShiftLeft<(kRawBits <= 4 ? 0 : kRawBits - 4)>(quads));
    even = hn::And(hn::BitCast(d8, hn::ShiftLeft<kRawBits>(quads)), hn::Set(d8, kHighMask));
    odd = hn::And(odd, hn::Set(d8, kHighMask));
    V8 halves[2] = {hn::InterleaveLower(d8, even, odd), hn::InterleaveUpper(d8, even, odd)};
    for (int half = 0; half < 2; ++half) {
      const V8 t = half == 0 ? MergeRaw<kRawBits, 2 * kPiece>(halves[0], segment, part) : MergeRaw<kRawBits, 2 * kPiece + 1>(halves[1], segment, part);
      const int at = 32 * half + 4 * kVectorQuads * part;
      if constexpr (stores(kUse))
        hn::StoreU(hn::Add(t, lowest), d8, reinterpret_cast<uint8_t*>(decoded) + at);
      else
        acc = Dot<kUse == Use::dot_small>(t, hn::LoadU(di8, x + at), acc);
    }
  }
}

// Columns of lanes [first_lane, + kWalkLanes) of a tile's lines, word after word of each lane.
HWY_INLINE void CopyWords(const TileCodes& tile, int first_lane, Walkers& walkers) {
  const uint8_t* HWY_RESTRICT codes = tile.full();
  const int64_t lines = tile.full_lines();
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> d64;
  for (int lane = 0; lane < kWalkLanes; lane += 4) {
    const uint8_t* HWY_RESTRICT from = codes + 4 * (first_lane + lane);
    int64_t line = 0;
    for (; line + 4 <= lines; line += 4, from += 4 * kLineBytes) {
      const auto row = [&](int i) HWY_ATTR { return hn::LoadU(d, reinterpret_cast<const uint32_t*>(from + i * kLineBytes)); };
      const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
      const auto a = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1)), b = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
      const auto e = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1)), f = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
      const auto to = [&](int i) HWY_ATTR { return reinterpret_cast<uint64_t*>(walkers.words[lane + i].data() + 4 * line); };
      hn::StoreU(hn::InterleaveLower(d64, a, b), d64, to(0));
      hn::StoreU(hn::InterleaveUpper(d64, a, b), d64, to(1));
      hn::StoreU(hn::InterleaveLower(d64, e, f), d64, to(2));
      hn::StoreU(hn::InterleaveUpper(d64, e, f), d64, to(3));
    }
  }
  for (int64_t line = lines; line < tile.lines(); ++line)
    for (int lane = 0; lane < kWalkLanes; ++lane) {
      const uint32_t word = tile.word(line, first_lane + lane);
      std::memcpy(walkers.words[lane].data() + 4 * line, &word, 4);
    }
}

// On its own, so that eight windows, table, mask and output share the registers with nothing else.
template <int kTakes>
HWY_NOINLINE void Walk(Walkers& walkers, const uint32_t* HWY_RESTRICT table, uint64_t mask, int quads, std::array<uint32_t, kChunkQuads>* HWY_RESTRICT entries) {
  walk<HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2, kTakes>(walkers, table, mask, quads, entries);
}

struct Scratch {
  Walkers walkers;
  alignas(64) std::array<std::array<uint32_t, kChunkQuads>, kWalkLanes> entries;
  alignas(64) std::array<int8_t, kPieceCols> last_cols;
  // acc of the rows of the eight lanes between their chunks.
  alignas(64) std::array<std::array<int32_t, 8>, kWalkLanes> acc;
  // Use::stream: a chunk of elements, and the tile's patches.
  alignas(64) std::array<std::array<uint8_t, kChunkSegments * kSegmentCols>, kWalkLanes> elements;
  OctetPatches patches;
  int next_patch = 0;  // of the octet
};

// Eight lanes of a tile's segments [segment, + count).
struct Chunk {
  int64_t group, column;
  int first_lane, lanes;  // lanes that there are
  int64_t segment, count;
  const TileIndex& tile;
};

struct Launch {
  const KernelCall& call;
  Stored stored;
  const uint32_t* table = nullptr;
  int32_t offset = 0;  // lowest * sum(x)
  // The only parts that are compiled for each number of look-ups a round and for each of raw bits.
  void (*walk)(Walkers&, const uint32_t*, uint64_t, int, std::array<uint32_t, kChunkQuads>*) = nullptr;
  void (*use_entries)(const Launch&, const Chunk&, Scratch&) = nullptr;
};

// Copies `count` bytes, past the caches where whole vectors fit.
HWY_INLINE void StreamRow(const uint8_t* HWY_RESTRICT from, int64_t count, uint8_t* HWY_RESTRICT to) {
  const D8 d8;
  constexpr int64_t kLanesOf8 = static_cast<int64_t>(HWY_MAX_LANES_D(D8));
  int64_t i = 0;
  if (reinterpret_cast<uintptr_t>(to) % kPieceCols == 0)
    for (; i + kPieceCols <= count; i += kPieceCols)
      for (int64_t at = i; at < i + kPieceCols; at += kLanesOf8) hn::Stream(hn::Load(d8, from + at), d8, to + at);
  if (i < count) std::memcpy(to + i, from + i, static_cast<size_t>(count - i));
}

// What becomes of the entries of a chunk that have been walked through.
template <int kRawBits, Use kUse>
HWY_NOINLINE void UseEntries(const Launch& launch, const Chunk& chunk, Scratch& scratch) {
  const auto& [group, column, first_lane, lanes, segment, count, tile] = chunk;
  const Stored& stored = launch.stored;
  const DI32 di32;
  const V8 lowest = hn::Set(D8(), static_cast<uint8_t>(stored.lowest));
  const int64_t cols = stored.cols, first_col = column * stored.tile_cols + segment * kSegmentCols, end = std::min(cols, first_col + count * kSegmentCols);
  const int8_t* HWY_RESTRICT x = launch.call.x;
  const uint8_t* HWY_RESTRICT raw_of_lane = stored.raw_of(group, column * stored.tile_segments + segment) + lane_raw_bytes(kRawBits) * first_lane;
  int8_t* HWY_RESTRICT row = launch.call.decoded + (group * kLanes + first_lane - launch.call.row_begin) * cols;
  for (int lane = 0; lane < lanes; ++lane, raw_of_lane += lane_raw_bytes(kRawBits), row += cols) {
    VI32 acc = hn::Zero(di32);
    if constexpr (!stores(kUse)) acc = hn::Load(di32, scratch.acc[lane].data());
    const uint8_t* HWY_RESTRICT raw = raw_of_lane;
    const uint32_t* HWY_RESTRICT entries = scratch.entries[lane].data();
    int8_t* HWY_RESTRICT to = kUse == Use::stream ? reinterpret_cast<int8_t*>(scratch.elements[lane].data()) : row + first_col;
    // x and the buffer are padded; rows are not.
    const auto piece = [&]<int kPiece>(int64_t col) HWY_ATTR {
      const int64_t left = end - first_col - col;
      const bool whole = left >= kPieceCols || kUse != Use::store;
      Piece<kRawBits, kUse, kPiece>(entries + col / 4, raw, lowest, x + first_col + col, whole ? to + col : scratch.last_cols.data(), acc);
      if (!whole) std::memcpy(to + col, scratch.last_cols.data(), static_cast<size_t>(left));
    };
    for (int64_t col = 0; first_col + col < end; col += kSegmentCols, raw += raw_bytes_of_segment(kRawBits)) {
      piece.template operator()<0>(col);
      if (first_col + col + kPieceCols < end) piece.template operator()<1>(col + kPieceCols);
    }
    if constexpr (!stores(kUse)) hn::Store(acc, di32, scratch.acc[lane].data());
  }
  if constexpr (kUse == Use::stream) {
    const uint32_t stop = static_cast<uint32_t>((segment + count) * kSegmentCols);
    const int last_patch = scratch.patches.begin[first_lane / kWalkLanes + 1];
    for (int& i = scratch.next_patch; i < last_patch && scratch.patches.patches[i] >> 16 < stop; ++i) {
      const uint32_t patch = scratch.patches.patches[i];
      uint8_t& element = scratch.elements[patch >> 8 & 7][(patch >> 16) - static_cast<uint32_t>(segment * kSegmentCols)];
      element = static_cast<uint8_t>(element + patch);
    }
    row -= lanes * cols;
    for (int lane = 0; lane < lanes; ++lane, row += cols) StreamRow(scratch.elements[lane].data(), end - first_col, reinterpret_cast<uint8_t*>(row) + first_col);
  }
}

// What UseEntries and the copying of the next eight lanes' words will touch, into the L1 cache while the walk goes on.
template <Use kUse>
HWY_INLINE void PrefetchForUse(const Launch& launch, const Chunk& chunk) {
  const auto& [group, column, first_lane, lanes, segment, count, tile] = chunk;
  const Stored& stored = launch.stored;
  const int64_t lines = tile.full_lines, lines_of_segment = lines / stored.segments_of(column) + 1;
  const uint8_t* codes = stored.codes + (tile.first_unit + tile.mask_units()) * kUnitBytes + (first_lane + kWalkLanes == kLanes ? lines : 0) * kLineBytes + 4 * ((first_lane + kWalkLanes) % kLanes);
  for (int64_t line = segment * lines_of_segment; line < (segment + count) * lines_of_segment; ++line) __builtin_prefetch(codes + line * kLineBytes, 0, 3);
  const uint8_t* raw = stored.raw_of(group, column * stored.tile_segments + segment) + stored.raw_lane_bytes() * first_lane;
  for (int64_t at = 0; at < count * raw_bytes_of_segment(stored.raw_bits); at += stored.raw_lane_bytes() * kLanes)
    for (int line = 0; line < kWalkLanes * stored.raw_lane_bytes(); line += 64) __builtin_prefetch(raw + at + line, 0, 3);
  if constexpr (kUse == Use::store) {
    const int64_t first_col = column * stored.tile_cols + segment * kSegmentCols, end = std::min(stored.cols, first_col + count * kSegmentCols);
    const int8_t* row = launch.call.decoded + (group * kLanes + first_lane - launch.call.row_begin) * stored.cols;
    for (int lane = 0; lane < lanes; ++lane, row += stored.cols)
      for (int64_t col = first_col; col < end; col += 64) __builtin_prefetch(row + col, 1, 2);
  }
}

// The next tile, as large as this one in all likelihood, comes into the L2 cache while this one is decoded: the share of the segments
// [segment, + count) of eight lanes. More at once would wait for the cache's few outstanding misses.
HWY_INLINE void PrefetchNextTile(const Stored& stored, const Chunk& chunk) {
  const auto& [group, column, first_lane, lanes, segment, count, tile] = chunk;
  const int64_t raw_bytes = raw_bytes_of_segment(stored.raw_bits);
  const int64_t segments = stored.segments_of(column), shares = segments * kLanes / kWalkLanes;
  const int64_t share = first_lane / kWalkLanes * segments + segment;
  const uint8_t* raw = stored.raw_of(group, column * stored.tile_segments) + segments * raw_bytes + share * raw_bytes * kWalkLanes / kLanes;
  for (int64_t at = 0; at < count * raw_bytes * kWalkLanes / kLanes; at += 64) __builtin_prefetch(raw + at, 0, 2);
  const int64_t bytes = tile.full_lines * kLineBytes;
  const uint8_t* codes = stored.codes + tile.first_unit * kUnitBytes + bytes;
  for (int64_t at = bytes * share / shares; at < bytes * (share + count) / shares; at += 64) __builtin_prefetch(codes + at, 0, 2);
}

// Eight lanes of a tile. Most lanes never lag, so several segments are walked at once if no lane may have to be moved in them.
template <Use kUse>
HWY_INLINE void Octet(const Launch& launch, int64_t group, int64_t column, int first_lane, const TileIndex& tile, const TileCodes& codes, const std::array<int64_t, kMostSegments>& reach, Scratch& scratch) {
  const Stored& stored = launch.stored;
  const int64_t segments = stored.segments_of(column);
  const int lanes = static_cast<int>(std::min<int64_t>(kWalkLanes, stored.rows - group * kLanes - first_lane));
  Walkers& walkers = scratch.walkers;
  CopyWords(codes, first_lane, walkers);
  for (int lane = 0; lane < kWalkLanes; ++lane) walkers.place(lane, 0);
  if constexpr (!stores(kUse)) std::memset(scratch.acc.data(), 0, sizeof(scratch.acc));
  scratch.next_patch = scratch.patches.begin[first_lane / kWalkLanes];
  const uint64_t mask = (uint64_t{1} << stored.table_bits) - 1;
  for (int64_t s = 0; s < segments;) {
    const auto floor_of = [&](int64_t segment) { return 32 * (reach[std::min(segment + kAhead, segments - 1)] - kRingLines); };
    const int64_t least = walkers.least_position();
    int64_t count = std::min<int64_t>(kChunkSegments, segments - s);
    while (count > 1 && floor_of(s + count - 1) > least) count = (count + 1) / 2;
    if (floor_of(s) > least)
      for (int lane = 0; lane < kWalkLanes; ++lane) walkers.place(lane, std::max(walkers.position(lane), floor_of(s)));
    const Chunk chunk{group, column, first_lane, lanes, s, count, tile};
    PrefetchNextTile(stored, chunk);
    PrefetchForUse<kUse>(launch, chunk);
    launch.walk(walkers, launch.table, mask, static_cast<int>(count) * kQuadsOfSegment, scratch.entries.data());
    launch.use_entries(launch, chunk, scratch);
    s += count;
  }
  if constexpr (!stores(kUse))
    for (int lane = 0; lane < lanes; ++lane) {
      uint32_t& y = reinterpret_cast<uint32_t*>(launch.call.y)[group * kLanes + first_lane + lane];
      y += static_cast<uint32_t>(hn::ReduceSum(DI32(), hn::Load(DI32(), scratch.acc[lane].data())));
    }
}

template <Use kUse>
HWY_INLINE void AddPatches(const Launch& launch, int64_t group, int64_t column) {
  const Stored& stored = launch.stored;
  const int64_t number = group * stored.column_tiles + column, first_col = column * stored.tile_cols;
  const TileIndex tile = stored.tile(number);
  uint32_t* y = reinterpret_cast<uint32_t*>(launch.call.y) + group * kLanes;
  for (int64_t i = tile.first_patch, end = stored.first_patch(number + 1); i < end; ++i) {
    const Patch patch = stored.patch(tile, i);
    if constexpr (stores(kUse)) {
      int8_t& element = launch.call.decoded[(group * kLanes + patch.row - launch.call.row_begin) * stored.cols + first_col + patch.col];
      element = static_cast<int8_t>(element + patch.delta);
    } else {
      y[patch.row] += static_cast<uint32_t>(patch.delta * launch.call.x[first_col + patch.col]);
    }
  }
}

template <Use kUse>
void Groups(const Launch& launch) {
  const Stored& stored = launch.stored;
  Scratch scratch;
  for (int64_t group = launch.call.row_begin / kLanes; group * kLanes < launch.call.row_end; ++group) {
    const int64_t rows = std::min<int64_t>(kLanes, stored.rows - group * kLanes);
    if constexpr (!stores(kUse)) std::fill_n(launch.call.y + group * kLanes, rows, launch.offset);
    for (int64_t column = 0; column < stored.column_tiles; ++column) {
      const int64_t tile = group * stored.column_tiles + column, segments = stored.segments_of(column);
      const TileIndex index = stored.tile(tile);
      const TileCodes codes(stored, index);
      std::array<int64_t, kMostSegments> reach;
      int64_t blocks = 0;
      for (int64_t s = 0; s < segments; ++s) reach[s] = reach_of(blocks += stored.schedule[tile * stored.tile_segments + s], codes.lines());
      bool patched = false;
      if constexpr (kUse == Use::stream) patched = scratch.patches.sort(stored, tile);
      for (int lane = 0; lane < rows; lane += kWalkLanes) {
        Octet<kUse>(launch, group, column, lane, index, codes, reach, scratch);
      }
      if (!patched) AddPatches<kUse>(launch, group, column);
    }
  }
  if constexpr (kUse == Use::stream) hwy::FlushStream();
}

// Builds the table in the scratch; `largest`: no high part of any entry is larger.
Launch OpenLaunch(const KernelCall& call, uint32_t& largest) {
  Launch launch{.call = call, .stored = open_stored(*call.matrix)};
  uint32_t* table = reinterpret_cast<uint32_t*>(call.scratch);
  largest = build_table(launch.stored, table);
  launch.table = table;
  const int table_bits = launch.stored.table_bits;
  launch.walk = table_bits <= 9 ? Walk<6> : table_bits <= 11 ? Walk<5> : Walk<4>;
  return launch;
}

template <Use kUse>
void Run(Launch& launch) {
  constexpr void (*kFunctions[])(const Launch&, const Chunk&, Scratch&) = {UseEntries<0, kUse>, UseEntries<1, kUse>, UseEntries<2, kUse>, UseEntries<3, kUse>, UseEntries<4, kUse>, UseEntries<5, kUse>, UseEntries<6, kUse>, UseEntries<7, kUse>};
  launch.use_entries = kFunctions[launch.stored.raw_bits];
  Groups<kUse>(launch);
}

void Matvec(const KernelCall& call) {
  if (call.row_begin >= call.row_end) return;
  uint32_t largest = 0;
  Launch launch = OpenLaunch(call, largest);
  uint32_t sum = 0;
  for (int64_t col = 0; col < launch.stored.cols; ++col) sum += static_cast<uint32_t>(call.x[col]);
  launch.offset = static_cast<int32_t>(sum * static_cast<uint32_t>(launch.stored.lowest));
  if ((largest + 1) << launch.stored.raw_bits <= 128)
    Run<Use::dot_small>(launch);
  else
    Run<Use::dot>(launch);
}

void Decode(const KernelCall& call) {
  if (call.row_begin >= call.row_end) return;
  uint32_t largest = 0;
  Launch launch = OpenLaunch(call, largest);
  if (call.tuning == 0)
    Run<Use::stream>(launch);
  else
    Run<Use::store>(launch);
}

}  // namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::quad_huffman {
namespace {

HWY_EXPORT(Matvec);
HWY_EXPORT(Decode);

void matvec(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Matvec)(call); }
void decode(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Decode)(call); }

int64_t rows_per_block(const CompressedView&) { return kLanes; }
int64_t scratch_bytes(const CompressedView& view, int) { return static_cast<int64_t>(view.sections[kTable].bytes.size()); }

// Entries are read as halves and bytes by the vector code, which splits quads.
std::string refuses(const CompressedView& view, const backends::DeviceInfo&, int) {
  if (view.type != datasets::ElementType::i8) return "The vectors of this kernel are of int8 elements.";
  if (open_stored(view).symbol_cols != 4) return "The vectors of this kernel split symbols of 4 columns only.";
  return std::endian::native == std::endian::little ? "" : "This kernel needs a little-endian machine.";
}

constexpr backends::Tuning kDecodeTunings[] = {{"past_caches"}, {"through_caches"}};

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "octets", .tunings = kDecodeTunings, .refuses = refuses, .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = decode},
    {.op = backends::Op::matvec, .variant = "octets", .tunings = backends::kDefaultTuning, .refuses = refuses, .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::quad_huffman
#endif  // HWY_ONCE
