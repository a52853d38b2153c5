// Streams and raw bits as a lane of a `single_level` kernel reads them, through rings in shared memory that
// asynchronous copies of 16 bytes fill, and the patches of its group's block. A copy belongs to the lane that starts
// it; a group shares its raw bits and therefore meets once a tile. Assumes a verified stream.
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "codecs/huffman_lut/format.h"

namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE::tuples {

namespace gpu = backends::gpu;
using single_level::CodeHeader, single_level::kPatchBytes, single_level::kTileCols;

inline constexpr int kPieceBytes = 16, kRingPieces = 4;  // of a copy; copies in a lane's ring
inline constexpr int kLineLanes = 32,
                     kLineBytes = kPieceBytes * kLineLanes;  // a line of shared memory holds a piece of 32 lanes' rings
inline constexpr int kEnsuredUnits = 8;                      // look-ups that ensure() is good for
inline constexpr int kQuadsOfTile = kTileCols / 4;
inline constexpr int kLengthShift = 28;  // of a table entry; below, high parts: a nibble a byte, or two bytes

struct Matrix {
  gpu::Pointer<const uint8_t> streams;
  gpu::Pointer<const uint8_t> last_piece;  // the bytes past the last whole piece, and zeros
  gpu::Pointer<const uint8_t> raw_bits, patches, code, blocks;
  gpu::Pointer<const uint32_t> table;  // [2^table_bits]
  int64_t stream_bytes, rows, block_count, row_bytes;
  int cols, rows_per_block, table_bits;
};

// The stream of one lane. Between two calls of ensure() a lane takes at most 4 words of its ring. ensure() starts a
// copy when a piece has been used up. After it 13 words are in the ring or on their way, and at most 8 of them, from
// the last two calls, may still be on their way.
class Bits {
 public:
  // The streams' bytes from `begin` on.
  ECMV_GPU_DEVICE Bits(const Matrix& matrix, int64_t begin, uint32_t bytes) : matrix_(matrix) {
    const int thread = gpu::thread_index();
    ring_ = gpu::shared_memory() + ((4 << matrix.table_bits) + thread / kLineLanes * kRingPieces * kLineBytes +
                                    thread % kLineLanes * kPieceBytes);
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
    third_ = pop();
  }

  // Call this before every kEnsuredUnits look-ups.
  ECMV_GPU_DEVICE void ensure() {
    if (written_ - read_ / kLineBytes < kRingPieces) copy_piece();
    gpu::commit_copies();
    gpu::wait_copies<2>();
  }

  // The next entry. `number` counts look-ups since a fresh window; every second one takes a fresh one.
  ECMV_GPU_DEVICE uint32_t take(int number) {
    if (number % 2 == 0) {
      // Half of the lanes need a word, so this selects: a branch would make the lanes diverge.
      const bool empty = bit_ >= 32;
      low_ = empty ? high_ : low_;
      high_ = empty ? third_ : high_;
      if (empty) third_ = word();
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
  // The bits of a ring offset that tell lanes apart. `read_` keeps them set, so the step from a piece's last word
  // carries through them into the next line.
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
      gpu::copy_async<kPieceBytes>(
          ring_ + written_ % kRingPieces * kLineBytes,
          gpu::cast<const std::byte>(whole ? matrix_.streams + int64_t{next_} * kPieceBytes : matrix_.last_piece));
      ++next_;
    }
    ++written_;
  }

  const Matrix& matrix_;
  gpu::Pointer<std::byte> ring_;
  uint32_t next_, end_;          // pieces, from the section's first
  uint32_t read_, written_ = 0;  // see pop(); pieces written, ever
  uint32_t low_, high_, third_;  // the next words; the third one is loaded early so that no lane waits for it
  uint32_t bit_, window_ = 0;    // window = low and high from `bit` on
};

// The planes of four tiles in shared memory. The S = kStreams lanes of a group fill them together, two tiles ahead.
template <int kRaw, int kStreams>
class RawRing {
 public:
  static constexpr int kTileBytes = kTileCols / 8 * kRaw, kTiles = 4;
  // Neighbouring groups begin in different banks, for as many groups as read at once.
  static constexpr int kBytes = kTiles * kTileBytes + (2 * kStreams < 16 ? 16 : 2 * kStreams);

  ECMV_GPU_DEVICE explicit RawRing(gpu::Pointer<std::byte> rings)
      : ring_(gpu::cast<uint8_t>(rings + LaneGroup::group() * kBytes)) {}
  // Rows that begin at multiples of 16 bytes are copied in pieces of 16; other rows byte by byte.
  ECMV_GPU_DEVICE void copy(gpu::Pointer<const uint8_t> row, int tile, bool aligned) {
    const gpu::Pointer<const uint8_t> from = row + int64_t{tile} * kTileBytes;
    const gpu::Pointer<uint8_t> to = slot(tile);
    if (aligned) {
      for (int at = LaneGroup::lane() * 16; at < kTileBytes; at += kStreams * 16)
        gpu::copy_async<16>(gpu::cast<std::byte>(to + at), gpu::cast<const std::byte>(from + at));
    } else {
      for (int at = LaneGroup::lane(); at < kTileBytes; at += kStreams) to[at] = from[at];
    }
  }
  // Two of 32 bytes: they lie 32 * `half` after the tile's first ones.
  ECMV_GPU_DEVICE uint32_t two_bytes(int tile, int half, int pair) const {
    return *gpu::cast<const uint16_t>(slot(tile) + (32 * half + 2 * pair));
  }

 private:
  using LaneGroup = gpu::Lanes<kStreams>;
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
      const auto join = [&](int half) {
        return gpu::byte_permute(ring.two_bytes(tile, half, pair), ring.two_bytes(tile, half + 1, pair), 0x5410);
      };
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
  // The raw bits of the quad in this quarter of the tile.
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

// A group's block of rows.
template <typename LaneGroup>
struct Block {
  int64_t first_row;
  int rows;
  gpu::Pointer<const uint64_t> record, next_record;

  ECMV_GPU_DEVICE Block(const Matrix& matrix, int64_t block) : first_row(block * matrix.rows_per_block) {
    const int64_t left = matrix.rows - first_row;
    rows = left < matrix.rows_per_block ? static_cast<int>(left) : matrix.rows_per_block;
    const int record_bytes = 16 + 4 * LaneGroup::size();
    record = gpu::cast<const uint64_t>(matrix.blocks + block * record_bytes);
    next_record = record + record_bytes / 8;
  }
  ECMV_GPU_DEVICE uint32_t stream_bytes() const { return gpu::cast<const uint32_t>(record + 2)[LaneGroup::lane()]; }
  ECMV_GPU_DEVICE int64_t stream_begin() const {
    return static_cast<int64_t>(record[0]) + LaneGroup::prefix_add(stream_bytes());
  }
};

// The patches of a block, one at a time for each lane of the group. It keeps little between two visits, because
// registers are scarce in the loop between them.
template <typename LaneGroup>
class Patches {
 public:
  ECMV_GPU_DEVICE Patches(const Matrix& matrix, const Block<LaneGroup>& block)
      : patches_(matrix.patches + static_cast<int64_t>(block.record[1]) * kPatchBytes),
        count_(static_cast<int>(block.next_record[1] - block.record[1])) {}

  // Calls use(position, patch) for the patches before `end`, and maybe for some after it. Positions count elements from
  // the block's first. Continues where `cursor` stopped. All lanes of the group call it together.
  struct Cursor {
    int patch = 0, position = 0;
  };
  template <typename Use>
  ECMV_GPU_DEVICE void for_each(Cursor& cursor, int end, const Use& use) const {
    while (cursor.patch < count_) {
      const int patch = cursor.patch + LaneGroup::lane(), distance = patch < count_ ? gap(patch) : 0;
      const int position = cursor.position + LaneGroup::prefix_add(distance) + distance;
      if (patch < count_) use(position, patch);
      const int last = LaneGroup::shuffle(position, LaneGroup::size() - 1);
      if (last >= end) break;  // the next row needs some of these
      cursor = {cursor.patch + LaneGroup::size(), last};
    }
  }
  ECMV_GPU_DEVICE int addend(int patch) const {
    return static_cast<int8_t>(patches_[patch * int64_t{kPatchBytes} + 2]);
  }
  // Whether this is the first patch of its element, and the sum of the element's patches.
  ECMV_GPU_DEVICE bool leads(int patch) const { return patch == 0 || gap(patch) > 0; }
  ECMV_GPU_DEVICE int total_addend(int patch) const {
    int total = addend(patch);
    while (++patch < count_ && gap(patch) == 0) total += addend(patch);
    return total;
  }

 private:
  ECMV_GPU_DEVICE int gap(int patch) const {
    return patches_[patch * int64_t{kPatchBytes}] | patches_[patch * int64_t{kPatchBytes} + 1] << 8;
  }

  gpu::Pointer<const uint8_t> patches_;
  int count_;
};

}  // namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE::tuples
