// A worker (32 lanes) on its tiles: rings of code lines and of x, the schedule, and the decoding of one segment of 128 columns.
// Operations per quad and lane, for B = 2 and two quads a window (H200: 64 lanes of the ALU, 64 of the multiplier, 32 of shared memory
// a clock):
//   half a window: 0.5 and, 0.5 multiply-add, 0.5 funnel shift, 1 load, 0.5 addition
//   code: 1 and, 1 multiply-add, 1 load, 1 and, 1 dot product (length), 0.5 shift
//   raw bits: 0.75 shift, 1 select (three-input logic); product: 1 dot product, 0.25 load of x
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "codecs/quad_huffman/format.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

using Worker = gpu::Lanes<kLanes>;

inline constexpr int kQuadsOfSegment = kSegmentCols / 4;
// A ring's first line is also behind its last one, so that a window's second word needs no wrap.
inline constexpr int kRingBytes = (kRingLines + 1) * kLineBytes;
inline constexpr int kInputSlots = kAhead + 1, kInputRingBytes = kInputSlots * kSegmentCols;

struct Streams {
  gpu::Pointer<const uint32_t> tiles;
  gpu::Pointer<const uint8_t> schedule;
  gpu::Pointer<const std::byte> codes;
  gpu::Pointer<const gpu::uint2> raw;
  gpu::Pointer<const uint16_t> positions;
  gpu::Pointer<const uint8_t> deltas;
  int row_segments, tile_segments;
  // 4, for a line is 32 bits of each lane. Were it a constant, an address would take three instructions instead of two.
  int line_bytes_of_bit;
};

// This lane's copy. The distance of entries is in bytes, so that an address is one multiply-add.
struct Table {
  gpu::SharedWords words;
  uint32_t mask;
  int distance;

  ECMV_GPU_DEVICE uint32_t operator[](uint32_t window) const { return words.at(static_cast<int>(window & mask) * distance); }
};

// Where a quad's raw bits belong.
template <int kRawBits>
inline constexpr uint32_t kRawMask = 0x01010101u * ((1u << entry_shift(kRawBits)) - 1);

// The raw bits of quad `quad` of 32 columns in the low bits of each byte, others above them; all arguments but the words are
// constants once the loops around are unrolled.
template <int kRawBits>
ECMV_GPU_DEVICE uint32_t raw_of(const uint32_t (&words)[kRawBits == 0 ? 1 : kRawBits], int quad) {
  if constexpr (kRawBits == 0) return 0;
  const auto plane = [&](int bits, int first) -> uint32_t {
    if (bits == 3 && quad >= 6) {
      const uint32_t low = gpu::select_bits(0x03030303u, words[first] >> 6, words[first + 1] >> 4);
      const uint32_t both = gpu::select_bits(0x0F0F0F0Fu, low, words[first + 2] >> 2);
      return both >> (3 * (quad - 6));
    }
    const int each = 8 / bits;
    return words[first + quad / each] >> (quad % each * bits);
  };
  constexpr int kFirst = kPlanes[kRawBits][0], kSecond = kPlanes[kRawBits][1];
  if constexpr (kSecond == 0) {
    return plane(kFirst, 0);
  } else {
    return gpu::select_bits(0x01010101u * ((1u << kFirst) - 1), plane(kFirst, 0), plane(kSecond, kFirst) << kFirst);
  }
}

// kWithInputs: the x of a segment comes through a ring as well.
template <int kRawBits, int kQuadsOfWindow, int kTiles, bool kWithInputs>
class TileWorker {
  static_assert(kTiles <= 2);

 public:
  static constexpr int kSharedBytes = kTiles * kRingBytes + kInputRingBytes;

  ECMV_GPU_DEVICE TileWorker(const Streams& streams, gpu::Pointer<std::byte> shared) : streams_(streams), rings_(shared), lane_ring_(shared + 4 * Worker::lane()) {}

  // Starts the copies of the codes of a stack's first segments; begin_inputs() is to follow. Row groups beyond the last one are the last
  // one again.
  ECMV_GPU_DEVICE void begin(int64_t stack, int64_t row_groups, int column, int column_tiles, int cols) {
    const int lane = Worker::lane();
    first_col_ = column * streams_.tile_segments * kSegmentCols;
    cols_ = cols - first_col_ < streams_.tile_segments * kSegmentCols ? cols - first_col_ : streams_.tile_segments * kSegmentCols;
    segments_ = (cols_ + kSegmentCols - 1) / kSegmentCols;
    ECMV_GPU_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      const int64_t group = stack * kTiles + t < row_groups ? stack * kTiles + t : row_groups - 1;
      const int64_t tile = group * column_tiles + column;
      Tile& one = tiles_[t];
      const uint32_t first_line = streams_.tiles[2 * tile];
      one.first_patch = streams_.tiles[2 * tile + 1];
      one.patches = streams_.tiles[2 * tile + 3] - one.first_patch;
      one.lines = static_cast<int>(streams_.tiles[2 * tile + 2] - first_line);
      one.own = stack * kTiles + t < row_groups;
      one.codes = streams_.codes + (static_cast<int64_t>(first_line) * kLineBytes + lane * 16);
      one.first_raw = streams_.raw + ((group * streams_.row_segments + static_cast<int64_t>(column) * streams_.tile_segments) * (kHalves * kRawBits * kLanes) + lane);
      one.schedule = lane < segments_ ? streams_.schedule[tile * streams_.tile_segments + lane] : 0;
      one.fetched = 0;
      one.position = 0;
      ECMV_GPU_UNROLL
      for (int k = 0; k < kPatchesAhead; ++k) {
        if (!kWithInputs || patch_of(k) >= one.patches) continue;
        one.position_ahead[k] = streams_.positions[one.first_patch + patch_of(k)];
        one.delta_ahead[k] = static_cast<int8_t>(delta_of(one.first_patch + patch_of(k)));
      }
    }
    load_raw(0, 0);
    Worker::sync();
    ECMV_GPU_UNROLL
    for (int s = 0; s < kAhead; ++s) fetch_codes(s);
  }

  // Starts the copies of the first segments' x. All copies so far are one group; the others are there to be counted.
  ECMV_GPU_DEVICE void begin_inputs(gpu::Pointer<const int8_t> x) {
    ECMV_GPU_UNROLL
    for (int s = 0; s < kAhead; ++s) fetch_inputs(s, x);
    ECMV_GPU_UNROLL
    for (int s = 0; s < kAhead; ++s) gpu::commit_copies();
  }

  // Adds what patches change to the sums of the rows. The first ones have been loaded since begin(): a patch is two dependent loads, and
  // nothing else is left to wait for when x is there.
  ECMV_GPU_DEVICE void add_patches(gpu::Pointer<const int8_t> x, gpu::Pointer<int32_t> sums) const {
    ECMV_GPU_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      const Tile& one = tiles_[t];
      if (!one.own) continue;
      ECMV_GPU_UNROLL
      for (int k = 0; k < kPatchesAhead; ++k)
        if (patch_of(k) < one.patches) add_patch(t, one.position_ahead[k], one.delta_ahead[k], x, sums);
      ECMV_GPU_NO_UNROLL
      for (uint32_t i = patch_of(kPatchesAhead); i < one.patches; i += kLanes)
        add_patch(t, streams_.positions[one.first_patch + i], delta_of(one.first_patch + i), x, sums);
    }
  }

  // Adds what patches change to the elements of tile 0 at `elements`, whose rows are `cols` apart. Patches of one element follow each other; the
  // lane that has the first of them adds them all.
  ECMV_GPU_DEVICE void patch_elements(gpu::Pointer<int8_t> elements, int cols) {
    const Tile& one = tiles_[0];
    const uint32_t last = one.first_patch + one.patches;
    for (uint32_t patch = one.first_patch + Worker::lane(); patch < last; patch += kLanes) {
      const uint32_t position = streams_.positions[patch];
      if (patch > one.first_patch && streams_.positions[patch - 1] == position) continue;
      int delta = delta_of(patch);
      for (uint32_t next = patch + 1; next < last && streams_.positions[next] == position; ++next) delta += delta_of(next);
      const gpu::Pointer<int8_t> element = elements + (static_cast<int64_t>(position % kLanes) * cols + position / kLanes);
      *element = static_cast<int8_t>(*element + (delta << kRawBits));
    }
  }

  // Calls visit(t, segment, quad of the segment, bytes, x) for all quads in order: byte k is element - lowest of column k (twice that
  // without raw bits) in this lane's row of tile t, x the four elements of the vector. Before, for each segment, visit_inputs(four
  // elements of x): all lanes together see each element once.
  template <typename Visit, typename VisitInputs>
  ECMV_GPU_DEVICE void decode(const Table& table, gpu::Pointer<const int8_t> x, Visit visit, VisitInputs visit_inputs) {
    for (int s = 0; s < segments_; ++s) {
      Worker::sync();
      fetch_codes(s + kAhead);
      fetch_inputs(s + kAhead, x);
      gpu::commit_copies();
      // Raw bits of one half are loaded while those of the other are used. The barrier behind the loads is there because nvcc otherwise moves them
      // down to where they are used.
      load_raw(1, kHalves * s + 1);
      gpu::wait_copies<kAhead>();
      Worker::sync();
      const gpu::Pointer<const gpu::uint4> inputs = gpu::cast<const gpu::uint4>(rings_ + (kTiles * kRingBytes + s % kInputSlots * kSegmentCols));
      if (kWithInputs) visit_inputs(gpu::cast<const uint32_t>(inputs)[Worker::lane()]);
      decode_half(table, s, 0, inputs, visit);
      load_raw(0, kHalves * s + 2);
      Worker::sync();
      decode_half(table, s, 1, inputs, visit);
    }
  }

 private:
  static_assert(kSegmentCols == 4 * kLanes);  // visit_inputs: a word of x a lane
  static constexpr int kPatchesAhead = 4;

  ECMV_GPU_DEVICE static uint32_t patch_of(int k) { return static_cast<uint32_t>(k * kLanes + Worker::lane()); }
  ECMV_GPU_DEVICE void add_patch(int t, uint32_t position, int delta, gpu::Pointer<const int8_t> x, gpu::Pointer<int32_t> sums) const {
    const int32_t input = x[first_col_ + static_cast<int>(position / kLanes)];
    gpu::atomic_add(sums + (t * kLanes + static_cast<int>(position % kLanes)), (delta * input) << kRawBits);
  }
  ECMV_GPU_DEVICE int delta_of(uint32_t patch) const { return ((streams_.deltas[patch / 2] >> (patch % 2 * 4) & 15) ^ 8) - 8; }

  static constexpr int kRawWords = kRawBits == 0 ? 1 : kRawBits;
  static constexpr int kHalves = 2, kQuadsOfHalf = kQuadsOfSegment / kHalves;

  template <typename Visit>
  ECMV_GPU_DEVICE void decode_half(const Table& table, int s, int half, gpu::Pointer<const gpu::uint4> inputs, Visit visit) {
    uint32_t window[kTiles], used[kTiles];
    gpu::uint4 input{};
    ECMV_GPU_UNROLL
    for (int i = 0; i < kQuadsOfHalf; ++i) {
      const int quad = half * kQuadsOfHalf + i;
      if (kWithInputs && i % 4 == 0) input = inputs[quad / 4];
      ECMV_GPU_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        if (i % kQuadsOfWindow == 0) {
          window[t] = window_of(t);
          used[t] = 0;
        }
        const uint32_t entry = table[i % kQuadsOfWindow == 0 ? window[t] : window[t] >> used[t]];
        used[t] = static_cast<uint32_t>(gpu::dot4_unsigned_signed(entry & 0x01010101u, 0x08040201, static_cast<int32_t>(used[t])));
        if (i % kQuadsOfWindow == kQuadsOfWindow - 1 || i == kQuadsOfHalf - 1) tiles_[t].position += used[t];
        uint32_t words[kRawWords];
        ECMV_GPU_UNROLL
        for (int j = 0; j < kRawBits; ++j) words[j] = i < 8 ? tiles_[t].raw[half][j].x : tiles_[t].raw[half][j].y;
        visit(t, s, quad, gpu::select_bits(kRawMask<kRawBits>, raw_of<kRawBits>(words, i % 8), entry),
              i % 4 == 0 ? input.x : i % 4 == 1 ? input.y : i % 4 == 2 ? input.z : input.w);
      }
    }
  }

  struct Tile {
    gpu::Pointer<const std::byte> codes;   // this lane's 16 bytes of the first block of lines
    gpu::Pointer<const gpu::uint2> first_raw;
    gpu::uint2 raw[2][kRawWords];          // of the half segment in work and of the next one
    uint32_t first_patch, patches;
    uint16_t position_ahead[kPatchesAhead];  // of this lane's first patches
    int8_t delta_ahead[kPatchesAhead];
    uint32_t position;                     // in bits
    int lines, fetched;
    int schedule;                          // of segment number `lane`
    bool own;
  };

  // Loads raw bits of half segment number `number` of the tiles, behind the last one its own again: with a condition nvcc would load to
  // other registers and wait to copy them.
  ECMV_GPU_DEVICE void load_raw(int half, int number) {
    const int there = number < kHalves * segments_ ? number : kHalves * segments_ - 1;
    ECMV_GPU_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      ECMV_GPU_UNROLL
      for (int j = 0; j < kRawBits; ++j) tiles_[t].raw[half][j] = gpu::load_streaming(tiles_[t].first_raw + (there * kRawBits + j) * kLanes);
    }
  }

  // Moves lagging positions forward and starts the copies of the codes of segment s, if there is one.
  ECMV_GPU_DEVICE void fetch_codes(int s) {
    const int lane = Worker::lane();
    ECMV_GPU_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      Tile& one = tiles_[t];
      const int blocks = s < segments_ ? Worker::shuffle(one.schedule, s) : 0;
      const gpu::Pointer<std::byte> ring = rings_ + t * kRingBytes;
      ECMV_GPU_NO_UNROLL
      for (int b = 0; b < blocks; ++b) {
        const int slot = one.fetched & (kRingLines - 1);
        if (lane < (one.lines - one.fetched) * (kLineBytes / 16)) {
          const gpu::Pointer<std::byte> to = ring + (slot * kLineBytes + lane * 16);
          gpu::copy_async<16>(to, one.codes);
          if (slot == 0 && lane < kLineBytes / 16) gpu::copy_async<16>(to + kRingLines * kLineBytes, one.codes);
        }
        one.codes += kBlockLines * kLineBytes;
        one.fetched += kBlockLines;
      }
      const int reach = one.fetched < one.lines ? one.fetched : one.lines;
      const int least = 32 * (reach - kRingLines);
      if (static_cast<int>(one.position) < least) one.position = static_cast<uint32_t>(least);
    }
  }

  // x of segment s; behind the last column zeros, for there are codes as well.
  ECMV_GPU_DEVICE void fetch_inputs(int s, gpu::Pointer<const int8_t> x) {
    const int lane = Worker::lane();
    if (!kWithInputs || s >= segments_ || lane >= kSegmentCols / 16) return;
    const int col = s * kSegmentCols + lane * 16;
    const gpu::Pointer<std::byte> to = rings_ + (kTiles * kRingBytes + s % kInputSlots * kSegmentCols + lane * 16);
    if (col < cols_)
      gpu::copy_async<16>(to, gpu::cast<const std::byte>(x + (first_col_ + col)));
    else
      *gpu::cast<gpu::uint4>(to) = gpu::uint4{};
  }

  // The next 32 bits of this lane's codes.
  ECMV_GPU_DEVICE uint32_t window_of(int t) const {
    const uint32_t position = tiles_[t].position;
    const int line = static_cast<int>(position & (32 * (kRingLines - 1))) * streams_.line_bytes_of_bit;
    return t == 0 ? window_at<0>(line, position) : window_at<kRingBytes>(line, position);
  }

  template <int kFirst>
  ECMV_GPU_DEVICE uint32_t window_at(int line, uint32_t position) const {
    return gpu::funnel_shift_right(lane_ring_.at<kFirst>(line), lane_ring_.at<kFirst + kLineBytes>(line), position);
  }

  Streams streams_;
  gpu::Pointer<std::byte> rings_;
  gpu::SharedWords lane_ring_;
  Tile tiles_[kTiles];
  int first_col_ = 0, cols_ = 0, segments_ = 0;
};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
