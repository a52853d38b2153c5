// The layout `segments` through rings. As in segments.h a lane has one row of a tile, but asynchronous copies bring the
// tile's words to a ring of 32 lines in shared memory, ahead of the lanes, and a lane keeps only its position in its
// stream. Were the next word loaded into a register, every four columns some lane would need it and all would wait for
// memory.
//   1. Every 32 or 64 columns a group of lanes finds its most and least advanced lane, copies as many lines as there is
//      room for, and waits for the lines that these columns may need.
//   2. For four columns, two words of the lane's own bank make a window, which serves two look-ups of two exponents
//      each.
// Where lanes are too far apart for the ring (a row of short codes beside one of long ones), these columns' words come
// from global memory. Whole groups of 32 rows only.
#pragma once

#include "backends/gpu/async_copy.h"
#include "codecs/huffman_exponents/gpu/segments.h"

namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::segments_gpu {

inline constexpr int kRingLines = 32, kLineBytes = 4 * kGroupRows, kCopiedLines = 4;  // one copy of 16 bytes a lane
inline constexpr int kRingBytes =
    (kRingLines + kCopiedLines) * kLineBytes;  // the first lines are repeated after the last ones
// Columns between two looks at the ring: 64 where no code has more than 8 bits, otherwise 32. With more the ring would
// have to hold lines for the longest codes that lanes might take, which is more than they do take.
inline constexpr int kRingBlockCols = 32, kShortCodeBits = 8;
inline constexpr uint32_t kPosition =
    0x7FFF;  // of a position: entries that are added to it leave their exponents above

// kBits is the width of the table's index, kAnyBits if only the launch knows it.
inline constexpr int kAnyBits = 0;
template <int kBits>
class RingLane {
 public:
  // `ring` and `pairs` are in shared memory. `lines` in global memory holds `count` lines of one tile, or of several
  // that follow each other.
  ECMV_GPU_DEVICE RingLane(gpu::Pointer<std::byte> ring, gpu::Pointer<const uint32_t> pairs, const Matrix& matrix,
                           gpu::Pointer<const uint32_t> lines, int count, int bits = kBits)
      : ring_(ring),
        pairs_(pairs),
        singles_(matrix.singles),
        lines_(lines),
        code_shift_(32 - matrix.code_bits),
        pair_shift_(32 - bits),
        count_(count),
        // 32 columns may take as many lines as a code has bits, one for the bits of the first line, and one for
        // windows.
        reach_((matrix.code_bits <= kShortCodeBits ? 2 : 1) * matrix.code_bits + 2) {
    copy(kRingLines - kCopiedLines);
  }

  // Moves the lanes to the tile that begins at this line, wherever their rows ended in the last one. Call begin_block()
  // next. Lines that no lane takes need not have been copied.
  ECMV_GPU_DEVICE void begin_tile(int line) {
    before_ = line & ~(kRingLines - 1);
    position_ = static_cast<uint32_t>(line & (kRingLines - 1)) << 5;
    if (const int whole = line & ~(kCopiedLines - 1); copied_ < whole) copied_ = whole;
  }
  // All lanes of the group call this before each block of columns. False: take_far() has to take the next columns.
  ECMV_GPU_DEVICE bool begin_block() {
    const int line = before_ + static_cast<int>((position_ & kPosition) >> 5);
    before_ = line & ~(kRingLines - 1);
    position_ = static_cast<uint32_t>(line & (kRingLines - 1)) << 5 | (position_ & 31);
    const int most = LaneGroup::reduce_max(line), least = -LaneGroup::reduce_max(-line);
    LaneGroup::sync();  // all lanes have read what the copies overwrite
    copy(least + kRingLines - kCopiedLines);
    const int needed = most + reach_ < count_ + 1 ? most + reach_ : count_ + 1;
    if (needed <= landed_) {
      gpu::wait_copies<1>();  // what was copied before the last block is there
      landed_ = copied_before_;
    } else {
      gpu::wait_copies<0>();
      landed_ = copied_;
    }
    copied_before_ = copied_;
    LaneGroup::sync();
    return needed <= landed_;
  }

  // Four columns: two pairs.
  ECMV_GPU_DEVICE void take(uint32_t& first, uint32_t& second) {
    uint32_t window = window_in_ring();
    first = pair_of(window);
    window = gpu::funnel_shift_left(0, window, first);
    second = pair_of(window);
    position_ += first + second;
    if ((second & kLength) == 0) {
      if ((first & kLength) == 0) first = long_pair(window_in_ring());
      second = long_pair(window_in_ring());
    }
  }
  ECMV_GPU_DEVICE void take_far(uint32_t& first, uint32_t& second) {
    first = long_pair(window_in_memory());
    second = long_pair(window_in_memory());
  }
  ECMV_GPU_DEVICE uint32_t take_one() {
    const uint32_t code = singles_[window_in_memory() >> code_shift_];
    position_ += code & kLength;
    return code >> 8;
  }

 private:
  // Copies lines that begin at `last` or before, at most one past the tile's.
  ECMV_GPU_DEVICE void copy(int last) {
    for (; copied_ <= last && copied_ <= count_; copied_ += kCopiedLines) {
      const int place = copied_ & (kRingLines - 1);
      const gpu::Pointer<const std::byte> from =
          gpu::cast<const std::byte>(lines_ + copied_ * kGroupRows) + 16 * LaneGroup::lane();
      gpu::copy_async<16>(ring_ + (place * kLineBytes + 16 * LaneGroup::lane()), from);
      if (place == 0) gpu::copy_async<16>(ring_ + (kRingLines * kLineBytes + 16 * LaneGroup::lane()), from);
    }
    gpu::commit_copies();
  }
  ECMV_GPU_DEVICE uint32_t window_in_ring() const {
    const gpu::Pointer<const uint32_t> word = gpu::cast<const uint32_t>(
        ring_ + static_cast<int>((position_ << 2 & (kRingLines - 1) * kLineBytes) + 4 * LaneGroup::lane()));
    return gpu::funnel_shift_left(word[kGroupRows], word[0], position_);
  }
  ECMV_GPU_DEVICE uint32_t window_in_memory() const {
    const gpu::Pointer<const uint32_t> word =
        lines_ + ((before_ + static_cast<int>((position_ & kPosition) >> 5)) * kGroupRows + LaneGroup::lane());
    return gpu::funnel_shift_left(word[kGroupRows], word[0], position_);
  }
  ECMV_GPU_DEVICE uint32_t pair_of(uint32_t window) const {
    return pairs_[window >> (kBits == kAnyBits ? pair_shift_ : 32 - kBits)];
  }
  ECMV_GPU_DEVICE uint32_t long_pair(uint32_t window) {
    const uint32_t first = singles_[window >> code_shift_];
    const uint32_t second = singles_[gpu::funnel_shift_left(0, window, first) >> code_shift_];
    position_ += (first & kLength) + (second & kLength);
    return (first >> 8) << 23 | (second >> 8) << 15;
  }

  gpu::Pointer<std::byte> ring_;
  gpu::Pointer<const uint32_t> pairs_;
  gpu::Pointer<const uint16_t> singles_;
  gpu::Pointer<const uint32_t> lines_;
  int code_shift_, pair_shift_, count_, reach_;
  uint32_t position_ = 0;  // in bits, from line before_ on, a multiple of kRingLines
  int before_ = 0, copied_ = 0, copied_before_ = 0, landed_ = 0;  // lines
};

// Like for_each_quad(), for bf16 only: calls `load(column)` before a quad is decoded, and passes what it returned to
// `quad` after the floats.
template <int kBits, typename Load, typename Quad, typename One>
ECMV_GPU_DEVICE void for_each_quad_in_ring(const Matrix& matrix, gpu::Pointer<std::byte> ring,
                                           gpu::Pointer<const uint32_t> pairs, int tile, const Load& load,
                                           const Quad& quad, const One& one) {
  constexpr int kUnitCols = segments_gpu::kUnitCols<true>;
  const int group = tile / matrix.segments, segment = tile % matrix.segments, row = LaneGroup::lane();
  const int first_col = segment * matrix.segment_cols, rest = matrix.cols - first_col;
  const int cols = rest < matrix.segment_cols ? rest : matrix.segment_cols;
  gpu::Pointer<const gpu::uint4> raw =
      gpu::cast<const gpu::uint4>(matrix.raw + matrix.unit_word<true>(group, first_col)) + row;
  gpu::uint4 ahead[2]{};
  ECMV_GPU_UNROLL
  for (int i = 0; i < 2; ++i)
    if ((i + 1) * kUnitCols <= cols) ahead[i] = gpu::load_streaming_here(raw + i * kGroupRows);
  const uint32_t begin = matrix.tiles[tile];
  RingLane<kBits> lane(ring, pairs, matrix, matrix.streams + static_cast<int64_t>(begin),
                       static_cast<int>(matrix.tiles[tile + 1] - begin) / kGroupRows);
  const int block_mask = (matrix.code_bits <= kShortCodeBits ? 2 : 1) * kRingBlockCols - 1;
  bool near = true;
  for (int col = 0; col + kUnitCols <= cols; col += kRingBlockCols) {
    if ((col & block_mask) == 0) near = lane.begin_block();
    ECMV_GPU_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int unit = col + i * kUnitCols;
      if (unit + kUnitCols <= cols) {
        const gpu::uint4 own = ahead[i];
        raw += kGroupRows;
        if (unit + 3 * kUnitCols <= cols) ahead[i] = gpu::load_streaming_here(raw + kGroupRows);
        if (near) {
          ECMV_GPU_UNROLL
          for (int k = 0; k < 4; ++k) {
            const auto loaded = load(first_col + unit + 4 * k);
            uint32_t first, second, floats[4];
            lane.take(first, second);
            make_floats(first, second, gpu::word_of(own, k), floats);
            quad(first_col + unit + 4 * k, k, floats, loaded);
          }
        } else {
          ECMV_GPU_NO_UNROLL
          for (int k = 0; k < 4; ++k) {
            uint32_t first, second, floats[4];
            lane.take_far(first, second);
            make_floats(first, second, gpu::word_of(own, k), floats);
            quad(first_col + unit + 4 * k, k, floats, load(first_col + unit + 4 * k));
          }
        }
      }
    }
  }
  gpu::wait_copies<0>();  // the next tile's lines come to the same place
  LaneGroup::sync();
  const int whole = cols / kUnitCols * kUnitCols;
  ECMV_GPU_NO_UNROLL
  for (int last = whole; last < cols; ++last) {
    const uint32_t word = matrix.raw_word<true>(group, row, first_col + last);
    one(first_col + last, make_one(lane.take_one(), word, last));
  }
}

// Shared memory: the pairs, then a ring for each group of lanes.
ECMV_GPU_BOTH constexpr int64_t ring_bytes_of(int bits, int threads) {
  return (int64_t{4} << bits) + threads / kGroupRows * kRingBytes;
}

// Like multiply().
template <int kBits, int kThreadsOfBlock, int kTokens, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kThreadsOfBlock,
                                kResident) void multiply_in_rings(Matrix matrix, gpu::Pointer<const float> x,
                                                                  int x_stride, int tokens, gpu::Pointer<float> partial,
                                                                  int64_t segment_stride) {
  const gpu::Pointer<const uint32_t> pairs = copy_pairs<kBits, kThreadsOfBlock>(matrix);
  const gpu::Pointer<std::byte> ring = gpu::shared_memory() + ((4 << kBits) + LaneGroup::group() * kRingBytes);
  constexpr int kGroups = kThreadsOfBlock / kGroupRows;
  const int tiles = static_cast<int>(matrix.rows / kGroupRows) * matrix.segments;
  int x_offsets[kTokens];
  ECMV_GPU_UNROLL
  for (int t = 0; t < kTokens; ++t) x_offsets[t] = (t < tokens ? t : tokens - 1) * x_stride;
  const auto load = [&](int t, int col) {
    return gpu::load_shared_by_many(gpu::cast<const gpu::uint4>(x + (x_offsets[t] + col)));
  };
  for (int tile = static_cast<int>(gpu::block_index()) * kGroups + LaneGroup::group(); tile < tiles;
       tile += static_cast<int>(gpu::grid_size()) * kGroups) {
    float sums[kTokens] = {};
    for_each_quad_in_ring<kBits>(
        // The first token's numbers are loaded ahead; for more tokens that would take too many registers.
        matrix, ring, pairs, tile, [&](int col) { return load(0, col); },
        [&](int col, int, const uint32_t(&floats)[4], gpu::uint4 inputs) {
          ECMV_GPU_UNROLL
          for (int t = 0; t < kTokens; ++t) {
            if (t > 0) inputs = load(t, col);
            ECMV_GPU_UNROLL
            for (int k = 0; k < 4; ++k) sums[t] += gpu::float_of(floats[k]) * gpu::float_of(gpu::word_of(inputs, k));
          }
        },
        [&](int col, uint32_t bits) {
          ECMV_GPU_UNROLL
          for (int t = 0; t < kTokens; ++t) sums[t] += gpu::float_of(bits) * x[x_offsets[t] + col];
        });
    const int64_t row = static_cast<int64_t>(tile / matrix.segments) * kGroupRows + LaneGroup::lane();
    ECMV_GPU_UNROLL
    for (int t = 0; t < kTokens; ++t)
      if (t < tokens) partial[tile % matrix.segments * segment_stride + t * matrix.rows + row] = sums[t];
  }
}

// Like decode(), but two lanes exchange halves of their 32 bytes, so that each store fills whole sectors of 32 bytes:
// 0.82 T elements/s on an H200. decode() stores 16 bytes of 32 rows at once and makes 0.21.
template <int kBits, int kThreadsOfBlock, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kThreadsOfBlock, kResident) void decode_in_rings(Matrix matrix,
                                                                                 gpu::Pointer<uint8_t> decoded) {
  const gpu::Pointer<const uint32_t> pairs = copy_pairs<kBits, kThreadsOfBlock>(matrix);
  const gpu::Pointer<std::byte> ring = gpu::shared_memory() + ((4 << kBits) + LaneGroup::group() * kRingBytes);
  constexpr int kGroups = kThreadsOfBlock / kGroupRows;
  const int tiles = static_cast<int>(matrix.rows / kGroupRows) * matrix.segments;
  const bool aligned = matrix.cols % 8 == 0;  // every row begins at a multiple of 16 bytes
  const bool odd = LaneGroup::lane() % 2 == 1;
  for (int tile = static_cast<int>(gpu::block_index()) * kGroups + LaneGroup::group(); tile < tiles;
       tile += static_cast<int>(gpu::grid_size()) * kGroups) {
    const int64_t row = static_cast<int64_t>(tile / matrix.segments) * kGroupRows + LaneGroup::lane();
    const gpu::Pointer<uint16_t> out = gpu::cast<uint16_t>(decoded) + row * matrix.cols;
    // The pair of rows, even and odd, that this lane belongs to; each lane stores its half of a unit.
    const gpu::Pointer<uint16_t> even_out = out + ((odd ? 8 : 0) - (odd ? matrix.cols : 0)),
                                 odd_out = even_out + matrix.cols;
    uint32_t two[8];  // elements in each
    for_each_quad_in_ring<kBits>(
        matrix, ring, pairs, tile, [](int) { return 0; },
        [&](int col, int number, const uint32_t(&floats)[4], int) {
          if (!aligned) {
            ECMV_GPU_UNROLL
            for (int i = 0; i < 4; ++i) out[col + i] = static_cast<uint16_t>(floats[i] >> 16);
            return;
          }
          const uint32_t low = gpu::byte_permute(floats[0], floats[1], 0x7632),
                         high = gpu::byte_permute(floats[2], floats[3], 0x7632);
          // Constants where the quads are unrolled.
          ECMV_GPU_UNROLL
          for (int i = 0; i < 4; ++i)
            if (number == i) two[2 * i] = low, two[2 * i + 1] = high;
          if (number < 3) return;
          uint32_t other[4];
          ECMV_GPU_UNROLL
          for (int i = 0; i < 4; ++i) other[i] = LaneGroup::shuffle_xor(odd ? two[i] : two[4 + i], 1);
          const int unit = col - 12;
          *gpu::cast<gpu::uint4>(even_out + unit) =
              odd ? gpu::uint4{other[0], other[1], other[2], other[3]} : gpu::uint4{two[0], two[1], two[2], two[3]};
          *gpu::cast<gpu::uint4>(odd_out + unit) =
              odd ? gpu::uint4{two[4], two[5], two[6], two[7]} : gpu::uint4{other[0], other[1], other[2], other[3]};
        },
        [&](int col, uint32_t bits) { out[col] = static_cast<uint16_t>(bits >> 16); });
  }
}

}  // namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::segments_gpu
