// The layout `segments` on a GPU. A group of 32 lanes has a tile, and a lane one row of it with that row's stream: 64
// bits in registers, and the next word, which is loaded when the one before it is taken. A look-up in a table of
// 2^kBits entries gives two exponents where the two floats have them. All 32 rows are at the same column, so loads of x
// share one address. A load of 16 bytes a lane brings the signs and mantissas of 16 columns (32 of f8). Single look-ups
// find pairs of more than kBits bits: these are rare, and a lane that meets one stands still, so one test serves two
// pairs. A last kernel adds up the products of tiles, always in the same order. Assumes a verified stream.
#pragma once

#include "backends/gpu/lanes.h"
#include "backends/gpu/products/dense_matmul.h"
#include "codecs/huffman_exponents/format.h"

namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::segments_gpu {

namespace gpu = backends::gpu;
using segments::kGroupRows, segments::kMaxCodeBits, segments::kOrderByte, segments::kUnitBytes;

using LaneGroup = gpu::Lanes<kGroupRows>;
inline constexpr int kThreads = 512, kTilesOfBlock = kThreads / kGroupRows;
inline constexpr uint32_t kLength = 31;  // bits 0..4 of a pair; 0: it is longer than the index

template <bool kBf16>
inline constexpr int kUnitCols = segments::unit_cols(kBf16);
template <bool kBf16>
inline constexpr int kWordCols = segments::word_cols(kBf16);

struct Matrix {
  gpu::Pointer<const uint8_t> code;
  gpu::Pointer<const uint32_t> streams, raw, tiles;
  gpu::Pointer<const uint32_t> pairs;  // [2^bits]: first exponent in bits 30..23, second in bits 22..15, length of both
  gpu::Pointer<const uint16_t> singles;  // [2^code_bits]: exponent << 8 | length
  int64_t rows;
  int cols, segment_cols, segments, code_bits;

  ECMV_GPU_DEVICE int rows_of(int64_t group) const {
    const int64_t left = rows - group * kGroupRows;
    return left < kGroupRows ? static_cast<int>(left) : kGroupRows;
  }
  // Word at which the unit of column `col` of a group's first row begins, see raw_index().
  template <bool kBf16>
  ECMV_GPU_DEVICE int64_t unit_word(int64_t group, int col) const {
    return (group * kGroupRows * row_bytes<kBf16>() + int64_t{rows_of(group)} * (col / kUnitCols<kBf16> * kUnitBytes)) /
           4;
  }
  // The word of signs and mantissas of column `col` in a group's row.
  template <bool kBf16>
  ECMV_GPU_DEVICE uint32_t raw_word(int64_t group, int row, int col) const {
    const int left = row_bytes<kBf16>() - col / kUnitCols<kBf16> * kUnitBytes,
              width = left < kUnitBytes ? left : kUnitBytes;
    return raw[unit_word<kBf16>(group, col) + row * width / 4 + col % kUnitCols<kBf16> / kWordCols<kBf16>];
  }
  template <bool kBf16>
  ECMV_GPU_DEVICE int row_bytes() const {
    return (cols + kWordCols<kBf16> - 1) / kWordCols<kBf16> * 4;
  }
};

// Exponent << 8 | length of the code at the top of the window; length 0: there is none.
ECMV_GPU_DEVICE uint32_t first_code(gpu::Pointer<const uint8_t> code, uint32_t window) {
  uint64_t limit = 0;
  uint32_t before = 0;
  for (int length = 1; length <= kMaxCodeBits; ++length) {
    const uint32_t count = code[2 * length] | static_cast<uint32_t>(code[2 * length + 1]) << 8;
    const uint64_t next = limit + (static_cast<uint64_t>(count) << (32 - length));
    if (window < next)
      return static_cast<uint32_t>(code[kOrderByte + before + ((window - limit) >> (32 - length))]) << 8 |
             static_cast<uint32_t>(length);
    before += count;
    limit = next;
  }
  return 0;
}

// Fills the tables, an entry of each a thread.
static ECMV_GPU_KERNEL void lay_out(Matrix matrix, int bits, gpu::Pointer<uint32_t> pairs,
                                    gpu::Pointer<uint16_t> singles) {
  gpu::let_next_begin();
  const uint32_t index = static_cast<uint32_t>(gpu::block_index() * gpu::block_size() + gpu::thread_index());
  if (index < 1u << matrix.code_bits)
    singles[index] = static_cast<uint16_t>(first_code(matrix.code, index << (32 - matrix.code_bits)));
  if (index >= 1u << bits) return;
  const uint32_t window = index << (32 - bits), first = first_code(matrix.code, window), length = first & 0xFF;
  const uint32_t second = length == 0 ? 0 : first_code(matrix.code, window << length), both = length + (second & 0xFF);
  pairs[index] =
      (second & 0xFF) != 0 && both <= static_cast<uint32_t>(bits) ? (first >> 8) << 23 | (second >> 8) << 15 | both : 0;
}

// A row's stream.
template <int kBits>
class Lane {
 public:
  // `words`: the row's first, `stride` apart.
  ECMV_GPU_DEVICE Lane(gpu::Pointer<const uint32_t> pairs, const Matrix& matrix, gpu::Pointer<const uint32_t> words,
                       int stride)
      : pairs_(pairs),
        singles_(matrix.singles),
        code_shift_(32 - matrix.code_bits),
        stride_(stride),
        now_(words[0]),
        then_(words[stride]),
        next_(words[2 * stride]),
        word_(words + 3 * stride) {}

  // Two pairs, which are four columns.
  ECMV_GPU_DEVICE void take(uint32_t& first, uint32_t& second) {
    first = pairs_[now_ >> (32 - kBits)];
    skip(first);
    second = pairs_[now_ >> (32 - kBits)];
    skip(second);
    used_ += first + second;
    if ((second & kLength) == 0) {
      if ((first & kLength) == 0) first = long_pair();
      second = long_pair();
    }
    refill();
  }
  ECMV_GPU_DEVICE uint32_t take_one() {
    const uint32_t code = singles_[now_ >> code_shift_];
    skip(code);
    used_ += code & kLength;
    refill();
    return code >> 8;
  }

 private:
  ECMV_GPU_DEVICE void skip(uint32_t bits) {  // modulo 32
    now_ = gpu::funnel_shift_left(then_, now_, bits);
    then_ = gpu::funnel_shift_left(0, then_, bits);
  }
  // The low 6 bits of used_ count consumed bits; the entries' other bits collect above them. After 32 consumed bits the
  // next word comes in.
  ECMV_GPU_DEVICE void refill() {
    if ((used_ & 32) == 0) return;
    now_ |= gpu::funnel_shift_left(next_, 0, used_);
    then_ = gpu::funnel_shift_left(0, next_, used_);
    used_ -= 32;
    next_ = *word_;
    word_ += stride_;
  }
  ECMV_GPU_DEVICE uint32_t long_pair() {
    refill();
    const uint32_t first = singles_[now_ >> code_shift_];
    skip(first);
    const uint32_t second = singles_[now_ >> code_shift_];
    skip(second);
    used_ += (first & kLength) + (second & kLength);
    return (first >> 8) << 23 | (second >> 8) << 15;
  }

  gpu::Pointer<const uint32_t> pairs_;
  gpu::Pointer<const uint16_t> singles_;
  int code_shift_, stride_;
  uint32_t now_, then_, next_, used_ = 0;
  gpu::Pointer<const uint32_t> word_;
};

// Four floats from four exponents and their word of signs and mantissas. Bit k of the low half is 0 in all of them.
ECMV_GPU_DEVICE void make_floats(uint32_t first, uint32_t second, uint32_t raw, uint32_t (&out)[4]) {
  constexpr uint32_t kRest = 0x807F0000u;
  out[0] = gpu::select_bits(kRest, raw, first & 0xFFFF0000u);
  out[1] = gpu::select_bits(kRest, raw << 8, gpu::byte_permute(first, 0, 0x2144));
  out[2] = gpu::select_bits(kRest, raw << 16, second & 0xFFFF0000u);
  out[3] = gpu::select_bits(kRest, gpu::funnel_shift_right(raw, raw, 8), gpu::byte_permute(second, 0, 0x2144));
}

// Four f8 from four exponents, a byte each. `raw` is the word of signs and mantissas of eight columns, of which these
// are the first or second half.
ECMV_GPU_DEVICE uint32_t make_f8(uint32_t first, uint32_t second, uint32_t raw, int half) {
  uint32_t bytes = 0;
  ECMV_GPU_UNROLL
  for (int pair = 0; pair < 2; ++pair) {
    const uint32_t turned = gpu::funnel_shift_left(raw, raw, static_cast<uint32_t>(8 * half + 4 * pair)),
                   exponents = pair == 0 ? first : second;
    bytes |= ((turned >> 8 & 0x80) | (exponents >> 23 & 15) << kF8MantissaBits | (turned >> 4 & 7)) << (16 * pair) |
             ((turned >> 24 & 0x80) | (exponents >> 15 & 15) << kF8MantissaBits | (turned >> 20 & 7))
                 << (16 * pair + 8);
  }
  return bytes;
}

// Walks a lane's row of a tile: calls quad(column, its number in its unit, two pairs, their word of signs and
// mantissas) for the whole units, and one(column, exponent, its word of signs and mantissas) for the columns of the
// last unit.
template <int kBits, bool kBf16, typename Quad, typename One>
ECMV_GPU_DEVICE void for_each_quad(const Matrix& matrix, gpu::Pointer<const uint32_t> pairs, int tile, const Quad& quad,
                                   const One& one) {
  constexpr int kCols = kUnitCols<kBf16>;
  const int group = tile / matrix.segments, segment = tile % matrix.segments, group_rows = matrix.rows_of(group);
  // Lanes without a row repeat the last row.
  const int row = LaneGroup::lane() < group_rows ? LaneGroup::lane() : group_rows - 1;
  Lane<kBits> lane(pairs, matrix, matrix.streams + (static_cast<int64_t>(matrix.tiles[tile]) + row), group_rows);
  const int first_col = segment * matrix.segment_cols, rest = matrix.cols - first_col;
  const int cols = rest < matrix.segment_cols ? rest : matrix.segment_cols;
  // Units of a group are [rows, 16 bytes].
  gpu::Pointer<const gpu::uint4> raw =
      gpu::cast<const gpu::uint4>(matrix.raw + matrix.unit_word<kBf16>(group, first_col)) + row;
  int col = 0;
  if (cols >= kCols) {
    gpu::uint4 words = gpu::load_streaming_here(raw);
    for (; col + kCols <= cols; col += kCols) {
      const gpu::uint4 own = words;
      if (col + 2 * kCols <= cols) {
        raw += group_rows;
        words = gpu::load_streaming_here(raw);
      }
      ECMV_GPU_UNROLL
      for (int i = 0; i < kCols / 4; ++i) {
        uint32_t first, second;
        lane.take(first, second);
        quad(first_col + col + 4 * i, i, first, second, gpu::word_of(own, kBf16 ? i : i / 2));
      }
    }
  }
  ECMV_GPU_NO_UNROLL
  for (; col < cols; ++col) {
    const uint32_t word = matrix.raw_word<kBf16>(group, row, first_col + col);
    one(first_col + col, lane.take_one(), word);
  }
}
// The bits of a column's float from its exponent and word.
ECMV_GPU_DEVICE uint32_t make_one(uint32_t exponent, uint32_t word, int col) {
  return gpu::select_bits(0x807F0000u, gpu::funnel_shift_left(word, word, static_cast<uint32_t>(8 * (col % 4))),
                          exponent << 23);
}

template <int kBits, int kThreadsOfBlock = kThreads>
ECMV_GPU_DEVICE gpu::Pointer<const uint32_t> copy_pairs(const Matrix& matrix) {
  const gpu::Pointer<gpu::uint4> to = gpu::cast<gpu::uint4>(gpu::shared_memory());
  for (int i = gpu::thread_index(); i < (1 << kBits) / 4; i += kThreadsOfBlock)
    to[i] = gpu::load_shared_by_many(gpu::cast<const gpu::uint4>(matrix.pairs) + i);
  gpu::sync_block();
  return gpu::cast<const uint32_t>(gpu::shared_memory());
}

// Fills partial[segment, token, row] for kTokens tokens from `token` on. Tokens past the batch repeat its last one and
// are not stored.
template <int kBits, int kTokens, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kThreads, kResident) void multiply(Matrix matrix, gpu::Pointer<const float> x,
                                                                   int x_stride, int tokens,
                                                                   gpu::Pointer<float> partial,
                                                                   int64_t segment_stride) {
  const gpu::Pointer<const uint32_t> pairs = copy_pairs<kBits>(matrix);
  const int tiles = static_cast<int>((matrix.rows + kGroupRows - 1) / kGroupRows) * matrix.segments;
  int x_offsets[kTokens];
  ECMV_GPU_UNROLL
  for (int t = 0; t < kTokens; ++t) x_offsets[t] = (t < tokens ? t : tokens - 1) * x_stride;
  for (int tile = static_cast<int>(gpu::block_index()) * kTilesOfBlock + LaneGroup::group(); tile < tiles;
       tile += static_cast<int>(gpu::grid_size()) * kTilesOfBlock) {
    float sums[kTokens] = {};
    for_each_quad<kBits, true>(
        matrix, pairs, tile,
        [&](int col, int, uint32_t first, uint32_t second, uint32_t raw) {
          uint32_t floats[4];
          make_floats(first, second, raw, floats);
          ECMV_GPU_UNROLL
          for (int t = 0; t < kTokens; ++t) {
            const gpu::uint4 inputs = gpu::load_shared_by_many(gpu::cast<const gpu::uint4>(x + (x_offsets[t] + col)));
            ECMV_GPU_UNROLL
            for (int k = 0; k < 4; ++k) sums[t] += gpu::float_of(floats[k]) * gpu::float_of(gpu::word_of(inputs, k));
          }
        },
        [&](int col, uint32_t exponent, uint32_t word) {
          const uint32_t bits = make_one(exponent, word, col);
          ECMV_GPU_UNROLL
          for (int t = 0; t < kTokens; ++t) sums[t] += gpu::float_of(bits) * x[x_offsets[t] + col];
        });
    const int64_t row = static_cast<int64_t>(tile / matrix.segments) * kGroupRows + LaneGroup::lane();
    if (row < matrix.rows) {
      ECMV_GPU_UNROLL
      for (int t = 0; t < kTokens; ++t)
        if (t < tokens) partial[tile % matrix.segments * segment_stride + t * matrix.rows + row] = sums[t];
    }
  }
}

// y[i] = the segments' partial sums.
static ECMV_GPU_KERNEL void add_segments(gpu::Pointer<const float> partial, int64_t segment_stride, int segments,
                                         gpu::Pointer<float> y, int64_t count) {
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i >= count) return;
  float sum = 0;
  for (int segment = 0; segment < segments; ++segment) sum += partial[segment * segment_stride + i];
  y[i] = sum;
}

template <int kBits, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kThreads, kResident) void decode(Matrix matrix, gpu::Pointer<uint8_t> decoded) {
  const gpu::Pointer<const uint32_t> pairs = copy_pairs<kBits>(matrix);
  const int tiles = static_cast<int>((matrix.rows + kGroupRows - 1) / kGroupRows) * matrix.segments;
  const bool aligned = matrix.cols % 8 == 0;  // every row begins at a multiple of 16 bytes
  for (int tile = static_cast<int>(gpu::block_index()) * kTilesOfBlock + LaneGroup::group(); tile < tiles;
       tile += static_cast<int>(gpu::grid_size()) * kTilesOfBlock) {
    const int64_t row = static_cast<int64_t>(tile / matrix.segments) * kGroupRows + LaneGroup::lane();
    const gpu::Pointer<uint16_t> out = gpu::cast<uint16_t>(decoded) + row * matrix.cols;
    gpu::uint2 even{};
    for_each_quad<kBits, true>(
        matrix, pairs, tile,
        [&](int col, int number, uint32_t first, uint32_t second, uint32_t raw) {
          uint32_t floats[4];
          make_floats(first, second, raw, floats);
          if (aligned) {
            const uint32_t low = gpu::byte_permute(floats[0], floats[1], 0x7632),
                           high = gpu::byte_permute(floats[2], floats[3], 0x7632);
            if (number % 2 == 0)
              even = {low, high};
            else if (row < matrix.rows)
              *gpu::cast<gpu::uint4>(out + (col - 4)) = {even.x, even.y, low, high};
          } else if (row < matrix.rows) {
            ECMV_GPU_UNROLL
            for (int i = 0; i < 4; ++i) out[col + i] = static_cast<uint16_t>(floats[i] >> 16);
          }
        },
        [&](int col, uint32_t exponent, uint32_t word) {
          if (row < matrix.rows) out[col] = static_cast<uint16_t>(make_one(exponent, word, col) >> 16);
        });
  }
}

// Decodes f8. A lane's stores are 16 bytes of a row where rows begin at multiples of 16.
template <int kBits, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kThreads, kResident) void decode_f8(Matrix matrix, gpu::Pointer<uint8_t> decoded) {
  const gpu::Pointer<const uint32_t> pairs = copy_pairs<kBits>(matrix);
  const int tiles = static_cast<int>((matrix.rows + kGroupRows - 1) / kGroupRows) * matrix.segments;
  const bool aligned = matrix.cols % 16 == 0;
  for (int tile = static_cast<int>(gpu::block_index()) * kTilesOfBlock + LaneGroup::group(); tile < tiles;
       tile += static_cast<int>(gpu::grid_size()) * kTilesOfBlock) {
    const int64_t row = static_cast<int64_t>(tile / matrix.segments) * kGroupRows + LaneGroup::lane();
    const gpu::Pointer<uint8_t> out = decoded + row * matrix.cols;
    uint32_t four[4];
    for_each_quad<kBits, false>(
        matrix, pairs, tile,
        [&](int col, int number, uint32_t first, uint32_t second, uint32_t raw) {
          const uint32_t bytes = make_f8(first, second, raw, number % 2);
          if (aligned) {
            four[number % 4] = bytes;
            if (number % 4 == 3 && row < matrix.rows)
              *gpu::cast<gpu::uint4>(out + (col - 12)) = {four[0], four[1], four[2], four[3]};
          } else if (row < matrix.rows) {
            ECMV_GPU_UNROLL
            for (int i = 0; i < 4; ++i) out[col + i] = static_cast<uint8_t>(bytes >> (8 * i));
          }
        },
        [&](int col, uint32_t exponent, uint32_t word) {
          const uint32_t half =
              gpu::funnel_shift_left(word, word, static_cast<uint32_t>(col % 8 / 2 * 4)) >> (col % 2 * 16);
          if (row < matrix.rows)
            out[col] = static_cast<uint8_t>((half >> 8 & 0x80) | exponent << kF8MantissaBits | (half >> 4 & 7));
        });
  }
}

}  // namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::segments_gpu
