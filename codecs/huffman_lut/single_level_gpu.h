// The layout `single_level` on a GPU: a lane follows one stream, the S lanes of a group the S streams of a block of rows, so that a
// group's look-ups are for neighbouring columns. A lane's stream goes through a ring of 16 words in shared memory, filled
// by asynchronous copies of 16 bytes; two look-ups share a window of 32 bits. Four columns are
// merged from the table's high parts and the raw bits' planes at once and multiplied by one instruction; x lies in shared memory
// in the order of the look-ups. A kernel before the product lays out the table in scratch. Assumes a verified stream.
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "backends/gpu/requantise.h"
#include "codecs/huffman_lut/format.h"

namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE::tuples {

namespace gpu = backends::gpu;
using namespace huffman_lut::single_level;

inline constexpr int kPieceBytes = 16, kRingPieces = 4;  // of a copy; copies in a lane's ring
inline constexpr int kLineLanes = 32, kLineBytes = kPieceBytes * kLineLanes;  // a line of shared memory holds a piece of 32 lanes' rings
inline constexpr int kEnsuredUnits = 8;                  // look-ups that ensure() is good for
inline constexpr int kQuadsOfTile = kTileCols / 4;
inline constexpr int kLengthShift = 28;  // of a table entry; below, high parts: a nibble a byte, or two bytes

struct Matrix {
  gpu::Pointer<const uint8_t> streams;
  gpu::Pointer<const uint8_t> last_piece;  // the bytes behind the last whole piece, and zeros
  gpu::Pointer<const uint8_t> raw_bits, patches, code, blocks;
  gpu::Pointer<const uint32_t> table;  // [2^table_bits]
  int64_t stream_bytes, rows, block_count, row_bytes;
  int cols, rows_per_block, table_bits;
};

// Fills what `matrix` has in scratch: table and last_piece, an element a thread.
template <int kTuple>
ECMV_GPU_KERNEL void lay_out(Matrix matrix, gpu::Pointer<uint32_t> table, gpu::Pointer<uint8_t> last_piece) {
  int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i < int64_t{1} << matrix.table_bits) {
    const gpu::Pointer<const uint16_t> codes_of_length = gpu::cast<const uint16_t>(matrix.code + 8);
    gpu::Pointer<const uint16_t> order = gpu::cast<const uint16_t>(matrix.code + sizeof(CodeHeader));
    uint32_t window = static_cast<uint32_t>(i), prefix = 0, first = 0, length = 0;
    for (;; ++length) {
      const uint32_t codes = codes_of_length[length];
      if (prefix - first < codes || static_cast<int>(length) == matrix.table_bits) break;
      order += codes;
      first = (first + codes) << 1;
      prefix = prefix << 1 | (window & 1);
      window >>= 1;
    }
    const uint32_t tuple = order[prefix - first];
    table[i] = length << kLengthShift |
               (kTuple == 2 ? tuple : (tuple & 15) | (tuple >> 8 & 15) << 8 | (tuple >> 4 & 15) << 16 | (tuple >> 12) << 24);
    return;
  }
  i -= int64_t{1} << matrix.table_bits;
  if (i >= kPieceBytes) return;
  const int64_t at = matrix.stream_bytes / kPieceBytes * kPieceBytes + i;
  last_piece[i] = at < matrix.stream_bytes ? matrix.streams[at] : uint8_t{0};
}

// In shared memory, in this order: table, rings of streams, one sum, rings of raw bits, x by quads (of products).
ECMV_GPU_BOTH int sum_offset(int table_bits, int threads) { return (4 << table_bits) + kPieceBytes * kRingPieces * threads; }
ECMV_GPU_BOTH int raw_offset(int table_bits, int threads) { return sum_offset(table_bits, threads) + 16; }
template <typename Form>
ECMV_GPU_BOTH int x_offset(int table_bits, int threads) {
  return raw_offset(table_bits, threads) + threads / Form::kStreams * Form::kRawRingBytes;
}

// x in shared memory, word q = the columns c, c + 1, c + 32, c + 33 of quad q of the full tiles.
// Returns this thread's part of its sum.
ECMV_GPU_DEVICE int32_t load_x(const Matrix& matrix, gpu::Pointer<const int8_t> x, gpu::Pointer<uint32_t> to) {
  int32_t sum = 0;
  for (int i = gpu::thread_index(); i < matrix.cols / kTileCols * kQuadsOfTile; i += gpu::block_size()) {
    const gpu::Pointer<const uint16_t> from = gpu::cast<const uint16_t>(x + (i / 16 * 64 + i % 16 * 2));
    const uint32_t quad = gpu::load_shared_by_many(from) | static_cast<uint32_t>(gpu::load_shared_by_many(from + 16)) << 16;
    to[i] = quad;
    sum = gpu::dot4(0x01010101, static_cast<int32_t>(quad), sum);
  }
  return sum;
}

// Copies the table; all threads of the block take part, and wait.
ECMV_GPU_DEVICE void load_table(const Matrix& matrix) {
  const gpu::Pointer<const gpu::uint4> from = gpu::cast<const gpu::uint4>(matrix.table);
  const gpu::Pointer<gpu::uint4> to = gpu::cast<gpu::uint4>(gpu::shared_memory());
  for (int i = gpu::thread_index(); i < 1 << matrix.table_bits >> 2; i += gpu::block_size()) to[i] = from[i];
  gpu::sync_block();
}

// The stream of one lane. Between two calls of ensure() a lane takes at most 4 words of its ring, and ensure() starts a copy when a piece
// has been taken; behind it 13 words are there or on their way, and at most the 8 of the last two calls may still be.
class Bits {
 public:
  // `bytes` of the streams from `begin` on.
  ECMV_GPU_DEVICE Bits(const Matrix& matrix, int64_t begin, uint32_t bytes) : matrix_(matrix) {
    const int thread = gpu::thread_index();
    ring_ = gpu::shared_memory() + ((4 << matrix.table_bits) + thread / kLineLanes * kRingPieces * kLineBytes + thread % kLineLanes * kPieceBytes);
    next_ = static_cast<uint32_t>(begin / kPieceBytes);
    end_ = bytes == 0 ? next_ : static_cast<uint32_t>((begin + bytes + kPieceBytes - 1) / kPieceBytes);
    for (int i = 0; i < kRingPieces; ++i) copy_piece();
    gpu::commit_copies();
    gpu::wait_copies<0>();
    const uint32_t skipped = static_cast<uint32_t>(begin % kPieceBytes);
    read_ = kLaneBits | skipped / 4 * 4;
    bit_ = skipped % 4 * 8;
    low_ = pop();
    high_ = pop();
    behind_ = pop();
  }

  // Before every kEnsuredUnits look-ups.
  ECMV_GPU_DEVICE void ensure() {
    if (written_ - read_ / kLineBytes < kRingPieces) copy_piece();
    gpu::commit_copies();
    gpu::wait_copies<2>();
  }

  // The next entry; `number` counts the look-ups since a fresh window, and every second one needs one.
  ECMV_GPU_DEVICE uint32_t take(int number) {
    if (number % 2 == 0) {
      // Half of the lanes need a word: selections instead of a branch that would part them.
      const bool empty = bit_ >= 32;
      low_ = empty ? high_ : low_;
      high_ = empty ? behind_ : high_;
      if (empty) behind_ = word();
      read_ = empty ? (read_ + 4) | kLaneBits : read_;
      bit_ &= 31;
      window_ = gpu::funnel_shift_right(low_, high_, bit_);
    }
    const uint32_t entry = gpu::cast<const uint32_t>(gpu::shared_memory())[window_ & ((1u << matrix_.table_bits) - 1)];
    const uint32_t length = entry >> kLengthShift;
    window_ >>= length;
    bit_ += length;
    return entry;
  }

 private:
  // The bits of an offset in a ring that tell lanes apart. `read_` keeps them set, so that a step from a piece's last word carries
  // through them into the next line.
  static constexpr uint32_t kLaneBits = kLineBytes - kPieceBytes;

  ECMV_GPU_DEVICE uint32_t word() const {
    return *gpu::cast<const uint32_t>(ring_ + static_cast<int>(read_ & (kRingPieces * kLineBytes - 1) & ~kLaneBits));
  }
  ECMV_GPU_DEVICE uint32_t pop() {
    const uint32_t front = word();
    read_ = (read_ + 4) | kLaneBits;
    return front;
  }
  ECMV_GPU_DEVICE void copy_piece() {
    if (next_ < end_) {
      // Only the section's last piece may be partial.
      const bool whole = next_ < static_cast<uint32_t>(matrix_.stream_bytes / kPieceBytes);
      gpu::copy_async<kPieceBytes>(ring_ + written_ % kRingPieces * kLineBytes,
                                   gpu::cast<const std::byte>(whole ? matrix_.streams + int64_t{next_} * kPieceBytes : matrix_.last_piece));
      ++next_;
    }
    ++written_;
  }

  const Matrix& matrix_;
  gpu::Pointer<std::byte> ring_;
  uint32_t next_, end_;           // pieces, from the section's first
  uint32_t read_, written_ = 0;   // see pop(); pieces written, ever
  uint32_t low_, high_, behind_;  // the next words; the third one only so that nobody waits for it
  uint32_t bit_, window_ = 0;     // window = low and high from `bit` on
};

// The planes of four tiles in shared memory, filled two tiles ahead by the S = kStreams lanes of a group together.
template <int kRaw, int kStreams>
class RawRing {
 public:
  static constexpr int kTileBytes = kTileCols / 8 * kRaw, kTiles = 4;
  // Neighbouring groups begin in different banks, as many as a group reads at once.
  static constexpr int kBytes = kTiles * kTileBytes + (2 * kStreams < 16 ? 16 : 2 * kStreams);

  ECMV_GPU_DEVICE explicit RawRing(gpu::Pointer<std::byte> rings) : ring_(gpu::cast<uint8_t>(rings + Group::group() * kBytes)) {}
  // Copies start at multiples of 16 bytes, in rows that do; other rows are copied byte by byte.
  ECMV_GPU_DEVICE void copy(gpu::Pointer<const uint8_t> row, int tile, bool aligned) {
    const gpu::Pointer<const uint8_t> from = row + int64_t{tile} * kTileBytes;
    const gpu::Pointer<uint8_t> to = slot(tile);
    if (aligned) {
      for (int at = Group::lane() * 16; at < kTileBytes; at += kStreams * 16)
        gpu::copy_async<16>(gpu::cast<std::byte>(to + at), gpu::cast<const std::byte>(from + at));
    } else {
      for (int at = Group::lane(); at < kTileBytes; at += kStreams) to[at] = from[at];
    }
  }
  // Two bytes of 32 that lie `half` times 32 behind the tile's first ones.
  ECMV_GPU_DEVICE uint32_t two_bytes(int tile, int half, int pair) const {
    return *gpu::cast<const uint16_t>(slot(tile) + (32 * half + 2 * pair));
  }

 private:
  using Group = gpu::Lanes<kStreams>;
  ECMV_GPU_DEVICE gpu::Pointer<uint8_t> slot(int tile) const { return ring_ + tile % kTiles * kTileBytes; }
  gpu::Pointer<uint8_t> ring_;
};

// The planes of one tile as a lane uses them: kBases pairs of columns in each quarter of the tile.
template <int kRaw, int kStreams>
struct RawBits {
  static constexpr int kBases = 16 / kStreams;
  uint32_t four[kBases][2], two[kBases], one[kBases];

  ECMV_GPU_DEVICE void load(const RawRing<kRaw, kStreams>& ring, int tile) {
    ECMV_GPU_UNROLL
    for (int s = 0; s < kBases; ++s) {
      const int pair = gpu::Lanes<kStreams>::lane() + kStreams * s;
      const auto join = [&](int half) { return gpu::byte_permute(ring.two_bytes(tile, half, pair), ring.two_bytes(tile, half + 1, pair), 0x5410); };
      if constexpr (kRaw & 4) {
        four[s][0] = join(0);
        four[s][1] = join(2);
      }
      if constexpr (kRaw & 2) two[s] = join(kRaw & 4);
      // The fields of the columns c and c + 32 are neighbours in one byte.
      if constexpr (kRaw & 1) {
        const uint32_t bytes = ring.two_bytes(tile, kRaw & 6, pair);
        one[s] = gpu::byte_permute(bytes, bytes >> 1, 0x5410);
      }
    }
  }
  // Of the quad in this quarter of the tile.
  ECMV_GPU_DEVICE uint32_t at(int quarter, int s) const {
    uint32_t raw = 0;
    if constexpr (kRaw & 4) raw |= (four[s][quarter % 2] >> (4 * (quarter / 2)) & 0x0F0F0F0Fu) << (kRaw & 3);
    if constexpr (kRaw & 2) raw |= (two[s] >> (2 * quarter) & 0x03030303u) << (kRaw & 1);
    if constexpr (kRaw & 1) raw |= one[s] >> (2 * quarter) & 0x01010101u;
    return raw;
  }
};

// The raw bits of one column of a tile that is not full.
ECMV_GPU_DEVICE uint32_t raw_of_column(gpu::Pointer<const uint8_t> planes, int cols, int column, int raw_bits) {
  uint32_t raw = 0;
  int below = raw_bits;
  for (int width = 4; width > 0; width /= 2) {
    if ((raw_bits & width) == 0) continue;
    below -= width;
    const int bytes = (cols * width + 7) / 8;
    raw |= (static_cast<uint32_t>(planes[column % bytes]) >> (width * (column / bytes)) & ((1u << width) - 1)) << below;
    planes += bytes;
  }
  return raw;
}

// a + b in each byte.
ECMV_GPU_DEVICE uint32_t add_bytes(uint32_t a, uint32_t b) {
  return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u);
}

// Of a block. A lane of four streams works on four times as much at once as one of sixteen, and has twice the registers: 64 are enough
// for the others, and 40 spill.
constexpr int most_threads(int streams) { return streams == 4 ? 512 : 1024; }

// What is constant for one kernel.
template <int kTupleOf, int kRawOf, int kStreamsOf>
struct Form {
  static constexpr int kTuple = kTupleOf, kRaw = kRawOf, kStreams = kStreamsOf;
  static constexpr int kUnitsOfTile = kTileCols / kTuple / kStreams;  // of a lane
  static constexpr int kRawRingBytes = kRaw == 0 ? 0 : RawRing<kRaw, kStreams>::kBytes;  // of a group
  // Offsets from the lowest element below 128, and below 256. Beyond that a lowest element below -128 makes them overflow
  // a byte, and only their sum with it is right, modulo 256.
  static constexpr bool kSmall = kTuple == 4 && kRaw <= 3;
  static constexpr bool kPlain = kTuple == 4 ? kRaw <= 4 : kRaw == 0;
  static constexpr int kMostThreads = most_threads(kStreams);
  using Group = gpu::Lanes<kStreams>;
};

// Calls quad(number of the quad in the row, its four offsets from the lowest element) for the full tiles of a row, and
// last(column, offset) for the columns behind them. `raw` is where the row's raw bits begin, `rings` where
// the block's rings for them do.
template <typename Form, typename Quad, typename Last>
ECMV_GPU_DEVICE void for_each_quad(const Matrix& matrix, Bits& bits, gpu::Pointer<std::byte> rings, gpu::Pointer<const uint8_t> raw, const Quad& quad,
                                   const Last& last) {
  constexpr int kTuple = Form::kTuple, kRaw = Form::kRaw, kStreams = Form::kStreams, kBases = 16 / kStreams;
  constexpr int64_t kTileRawBytes = kTileCols / 8 * kRaw;
  const int lane = Form::Group::lane(), tiles = matrix.cols / kTileCols;
  const bool aligned = matrix.row_bytes % 16 == 0;
  RawBits<kRaw, kStreams> raw_bits;
  RawRing<kRaw, kStreams> ring(rings);
  if constexpr (kRaw > 0) {
    Form::Group::sync();  // the row before is done with the ring
    for (int tile = 0; tile < 2; ++tile) {
      if (tile < tiles) ring.copy(raw, tile, aligned);
      gpu::commit_copies();
    }
  }
  for (int tile = 0; tile < tiles; ++tile) {
    if (kRaw > 0 && tile + 2 < tiles) ring.copy(raw, tile + 2, aligned);
    bits.ensure();
    if constexpr (kRaw > 0) {
      // All but the last two groups of copies have come, so this tile's planes have. The slot that is written next was last
      // read before the sync of the tile before this one.
      Form::Group::sync();
      raw_bits.load(ring, tile);
    }
    ECMV_GPU_UNROLL
    for (int quarter = 0; quarter < 4; ++quarter) {
      uint32_t high[kBases];
      if (quarter > 0 && quarter * (Form::kUnitsOfTile / 4) % kEnsuredUnits == 0) bits.ensure();
      if constexpr (kTuple == 4) {
        ECMV_GPU_UNROLL
        for (int s = 0; s < kBases; ++s) high[s] = bits.take(quarter * kBases + s);
      } else {
        ECMV_GPU_UNROLL
        for (int s = 0; s < kBases; ++s) high[s] = bits.take(s);
        ECMV_GPU_UNROLL
        for (int s = 0; s < kBases; ++s) high[s] = gpu::byte_permute(high[s], bits.take(kBases + s), 0x5410);
      }
      ECMV_GPU_UNROLL
      for (int s = 0; s < kBases; ++s) {
        constexpr uint32_t kHighMask = 0x01010101u * ((kTuple == 4 ? 0x0Fu : 0xFFu) << kRaw & 0xFFu);
        quad(tile * kQuadsOfTile + quarter * 16 + s * kStreams + lane, (high[s] << kRaw & kHighMask) | raw_bits.at(quarter, s));
      }
    }
  }
  const int left = matrix.cols % kTileCols, first = tiles * kTileCols;
  if (left == 0) return;
  const int stored_raw_bits = static_cast<int>(gpu::cast<const uint32_t>(matrix.code)[1]);
  const int units = kTuple == 2 ? (left + 1) / 2 : left / 64 * 16 + (left % 64 < 32 ? (left % 64 + 1) / 2 : 16);
  for (int unit = lane, number = 0; unit < units; unit += kStreams, ++number) {
    if (number % kEnsuredUnits == 0) bits.ensure();
    const uint32_t entry = bits.take(0);
    const int column = kTuple == 2 ? 2 * unit : unit / 16 * 64 + unit % 16 * 2;
    for (int i = 0; i < kTuple; ++i) {
      const int at = column + (i & 1) + (i >> 1) * 32;
      if (at >= left) continue;
      const uint32_t high = entry >> (8 * i) & (kTuple == 4 ? 0x0Fu : 0xFFu);
      last(first + at, high << stored_raw_bits | raw_of_column(raw + tiles * kTileRawBytes, left, at, stored_raw_bits));
    }
  }
}

// A group's block of rows.
template <typename Group>
struct Block {
  int64_t first_row;
  int rows;
  gpu::Pointer<const uint64_t> record, next_record;

  ECMV_GPU_DEVICE Block(const Matrix& matrix, int64_t block) : first_row(block * matrix.rows_per_block) {
    const int64_t left = matrix.rows - first_row;
    rows = left < matrix.rows_per_block ? static_cast<int>(left) : matrix.rows_per_block;
    const int record_bytes = 16 + 4 * Group::size();
    record = gpu::cast<const uint64_t>(matrix.blocks + block * record_bytes);
    next_record = record + record_bytes / 8;
  }
  ECMV_GPU_DEVICE uint32_t stream_bytes() const { return gpu::cast<const uint32_t>(record + 2)[Group::lane()]; }
  ECMV_GPU_DEVICE int64_t stream_begin() const { return static_cast<int64_t>(record[0]) + Group::prefix_add(stream_bytes()); }
};

// The patches of a block, one for each lane of the group at a time. Little is kept between two visits, because registers are scarce in
// the loop between them.
template <typename Group>
class Patches {
 public:
  ECMV_GPU_DEVICE Patches(const Matrix& matrix, const Block<Group>& block)
      : patches_(matrix.patches + static_cast<int64_t>(block.record[1]) * kPatchBytes),
        count_(static_cast<int>(block.next_record[1] - block.record[1])) {}

  // Calls use(position, patch) for the patches in front of `end`, and maybe for some behind; positions are elements from the block's
  // first. Goes on where `cursor` stopped. All lanes of the group together.
  struct Cursor {
    int patch = 0, position = 0;
  };
  template <typename Use>
  ECMV_GPU_DEVICE void for_each(Cursor& cursor, int end, const Use& use) const {
      while (cursor.patch < count_) {
      const int patch = cursor.patch + Group::lane(), distance = patch < count_ ? gap(patch) : 0;
      const int position = cursor.position + Group::prefix_add(distance) + distance;
      if (patch < count_) use(position, patch);
      const int last = Group::shuffle(position, Group::size() - 1);
      if (last >= end) break;  // the row behind needs some of these
      cursor = {cursor.patch + Group::size(), last};
    }
  }
  ECMV_GPU_DEVICE int addend(int patch) const { return static_cast<int8_t>(patches_[patch * int64_t{kPatchBytes} + 2]); }
  // Whether this is the first patch of its element, and the sum of all of them.
  ECMV_GPU_DEVICE bool leads(int patch) const { return patch == 0 || gap(patch) > 0; }
  ECMV_GPU_DEVICE int total_addend(int patch) const {
    int total = addend(patch);
    while (++patch < count_ && gap(patch) == 0) total += addend(patch);
    return total;
  }

 private:
  ECMV_GPU_DEVICE int gap(int patch) const { return patches_[patch * int64_t{kPatchBytes}] | patches_[patch * int64_t{kPatchBytes} + 1] << 8; }

  gpu::Pointer<const uint8_t> patches_;
  int count_;
};

ECMV_GPU_DEVICE int lowest_of(const Matrix& matrix) { return gpu::cast<const int32_t>(matrix.code)[0]; }
ECMV_GPU_DEVICE uint32_t in_each_byte(int value) { return 0x01010101u * static_cast<uint8_t>(value); }

template <typename Form>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(Form::kMostThreads, 1) void matvec(Matrix matrix, gpu::Pointer<const int8_t> x, gpu::Epilogue epilogue) {
  using Group = typename Form::Group;
  const int lowest = lowest_of(matrix);
  // lowest * (sum of x), where the product is of offsets.
  const gpu::Pointer<int32_t> bias = gpu::cast<int32_t>(gpu::shared_memory() + sum_offset(matrix.table_bits, gpu::block_size()));
  const gpu::Pointer<uint32_t> x_quads = gpu::cast<uint32_t>(gpu::shared_memory() + x_offset<Form>(matrix.table_bits, gpu::block_size()));
  if (gpu::thread_index() == 0) *bias = 0;
  const int32_t sum_of_x = gpu::Wave::reduce_add(load_x(matrix, x, x_quads));
  load_table(matrix);
  if (Form::kPlain && gpu::Wave::lane() == 0) gpu::atomic_add(bias, sum_of_x * lowest);
  gpu::sync_block();

  const int64_t index = gpu::block_index() * (gpu::block_size() / Group::size()) + Group::group();
  if (index >= matrix.block_count) return;
  const Block<Group> block(matrix, index);
  Bits bits(matrix, block.stream_begin(), block.stream_bytes());
  typename Patches<Group>::Cursor cursor;
  for (int i = 0; i < block.rows; ++i) {
    const int64_t row = block.first_row + i;
    int32_t sum = 0;
    for_each_quad<Form>(
        matrix, bits, gpu::shared_memory() + raw_offset(matrix.table_bits, gpu::block_size()), matrix.raw_bits + row * matrix.row_bytes,
        [&](int quad, uint32_t offsets) {
          const int32_t inputs = static_cast<int32_t>(x_quads[quad]);
          if constexpr (Form::kSmall)
            sum = gpu::dot4(static_cast<int32_t>(offsets), inputs, sum);
          else if constexpr (Form::kPlain)
            sum = gpu::dot4_unsigned_signed(offsets, inputs, sum);
          else
            sum = gpu::dot4(static_cast<int32_t>(add_bytes(offsets, in_each_byte(lowest))), inputs, sum);
        },
        [&](int column, uint32_t offset) { sum += static_cast<int8_t>(offset + static_cast<uint32_t>(lowest)) * x[column]; });
    const Patches<Group> patches(matrix, block);
    const int first = i * matrix.cols;
    patches.for_each(cursor, first + matrix.cols, [&](int position, int patch) {
      if (position >= first && position < first + matrix.cols) sum += patches.addend(patch) * x[position - first];
    });
    const int32_t total = Group::reduce_add(sum);
    if (Group::lane() == 0) epilogue.store(row, total + *bias);
  }
}

template <typename Form>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(Form::kMostThreads, 1) void decode(Matrix matrix, gpu::Pointer<int8_t> decoded) {
  using Group = typename Form::Group;
  load_table(matrix);
  const int64_t index = gpu::block_index() * (gpu::block_size() / Group::size()) + Group::group();
  if (index >= matrix.block_count) return;
  const Block<Group> block(matrix, index);
  Bits bits(matrix, block.stream_begin(), block.stream_bytes());
  const uint32_t lowest = static_cast<uint32_t>(lowest_of(matrix));
  const bool even = matrix.cols % 2 == 0;
  for (int i = 0; i < block.rows; ++i) {
    const int64_t row = block.first_row + i;
    const gpu::Pointer<int8_t> out = decoded + row * matrix.cols;
    for_each_quad<Form>(
        matrix, bits, gpu::shared_memory() + raw_offset(matrix.table_bits, gpu::block_size()), matrix.raw_bits + row * matrix.row_bytes,
        [&](int quad, uint32_t offsets) {
          const uint32_t elements = add_bytes(offsets, in_each_byte(static_cast<int>(lowest)));
          const gpu::Pointer<int8_t> at = out + (quad / 16 * 64 + quad % 16 * 2);
          if (even) {
            *gpu::cast<uint16_t>(at) = static_cast<uint16_t>(elements);
            *gpu::cast<uint16_t>(at + 32) = static_cast<uint16_t>(elements >> 16);
          } else {
            at[0] = static_cast<int8_t>(elements);
            at[1] = static_cast<int8_t>(elements >> 8);
            at[32] = static_cast<int8_t>(elements >> 16);
            at[33] = static_cast<int8_t>(elements >> 24);
          }
        },
        [&](int column, uint32_t offset) { out[column] = static_cast<int8_t>(offset + lowest); });
  }
  Group::sync();
  // The lane with the first patch of an element adds all of them.
  const gpu::Pointer<int8_t> out = decoded + block.first_row * matrix.cols;
  const Patches<Group> patches(matrix, block);
  typename Patches<Group>::Cursor cursor;
  patches.for_each(cursor, INT32_MAX, [&](int position, int patch) {
    if (patches.leads(patch)) out[position] = static_cast<int8_t>(out[position] + patches.total_addend(patch));
  });
}

static ECMV_GPU_KERNEL void store_zeros(gpu::Epilogue epilogue, int64_t rows) {
  const int64_t row = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (row < rows) epilogue.store(row, 0);
}

}  // namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE::tuples
