// Products of `segments` with 1 to 64 tokens of bf16 on matrix units. A lane group has rows and rings as in rings.h.
// Its lanes decode 32 columns at a time to pairs of bf16, store them in a piece of shared memory (gpu/token_pieces.h),
// and the group multiplies the piece with all tokens. A block's lane groups form `row_groups` x `parts`. A part has
// neighbouring segments, whose streams follow each other, so that its ring runs on from tile to tile. All parts are at
// the same place of their columns, so each slice of the tokens is in shared memory once for all row groups.
#pragma once

#include "backends/gpu/products/token_matmul.h"
#include "codecs/huffman_exponents/gpu/rings.h"

namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::segments_gpu {

// How a product is divided, and where things lie in a block's shared memory after the table: rings, pieces and two
// slices of the tokens. The sums take their place at the end.
struct TokenLayout {
  int bits;                         // of the table's index
  int row_groups, parts, shares;    // of a block; blocks that share rows (gpu/token_shares.h)
  int part_segments;                // segments of a part; a share's segments follow each other
  int slice_cols;                   // of each part: a multiple of kStepCols, which segments are multiples of
  int pieces, slices, token_bytes;  // where they begin; from one token of a slice to the next
};

// Columns between two looks at the ring and the tokens (a block of gpu/warpgroup_units.h), and columns of a piece.
inline constexpr int kStepCols = gpu::kBlockCols, kPieceCols = gpu::kPieceRowBytes / 2;
// Signs and mantissas are requested into the L2 cache this many columns before a lane loads them.
inline constexpr int kRawAheadCols = 4 * kStepCols;

// Makes two pairs of columns bf16 numbers. A byte permutation of a table's entry puts the first exponent where the
// lower number has it and the second where the upper has it; the bits that come along fall on signs and mantissas, or
// are zero.
ECMV_GPU_DEVICE gpu::uint2 bf16_numbers(uint32_t first, uint32_t second, uint32_t raw) {
  constexpr uint32_t kRaw = 0x807F807F;
  return {gpu::select_bits(kRaw, gpu::byte_permute(raw, 0, 0x2132), gpu::byte_permute(first, 0, 0x2132)),
          gpu::select_bits(kRaw, gpu::byte_permute(raw, 0, 0x0310), gpu::byte_permute(second, 0, 0x2132))};
}
// The same for f8; `half` chooses among the word's eight columns.
ECMV_GPU_DEVICE gpu::uint2 f8_numbers(uint32_t first, uint32_t second, uint32_t raw, int half) {
  const auto pair = [&](uint32_t entry, int number) {
    return gpu::scaled_f8(
        gpu::select_bits(gpu::kF8Raw, gpu::funnel_shift_left(raw, raw, static_cast<uint32_t>(8 * half + 4 * number)),
                         gpu::byte_permute(entry, 0, 0x2132) & gpu::kF8Exponents));
  };
  return {pair(first, 0), pair(second, 1)};
}

// A lane group's part of a row group: `cols` columns from `first_col` on, 0 where there are none.
template <bool kBf16>
class PartRows {
 public:
  static constexpr int kUnits = kPieceCols / kUnitCols<kBf16>;  // of a piece

  ECMV_GPU_DEVICE PartRows(const Matrix& matrix, int64_t group, int first_segment, int segments)
      : matrix_(matrix),
        first_tile_(group * matrix.segments + first_segment),
        segments_(segments),
        cols_(cols_of(matrix, first_segment, segments)) {
    if (segments_ <= 0) return;
    raw_ =
        gpu::cast<const gpu::uint4>(matrix.raw + matrix.unit_word<kBf16>(group, first_segment * matrix.segment_cols)) +
        LaneGroup::lane();
    first_word_ = matrix.tiles[first_tile_];
    prefetch_raw(0, kRawAheadCols);
    load_raw(0);
  }

  static ECMV_GPU_DEVICE int cols_of(const Matrix& matrix, int first_segment, int segments) {
    if (segments <= 0) return 0;
    const int first = first_segment * matrix.segment_cols, end = first + segments * matrix.segment_cols;
    return (end < matrix.cols ? end : matrix.cols) - first;
  }
  ECMV_GPU_DEVICE int cols() const { return cols_; }

  ECMV_GPU_DEVICE RingLane<kAnyBits> ring(gpu::Pointer<std::byte> place, gpu::Pointer<const uint32_t> pairs,
                                          int bits) const {
    const int lines = segments_ <= 0 ? 0 : line_of(segments_);
    return RingLane<kAnyBits>(place, pairs, matrix_, matrix_.streams + static_cast<int64_t>(first_word_), lines, bits);
  }
  // Call this before each step of columns, in order.
  ECMV_GPU_DEVICE bool begin_step(RingLane<kAnyBits>& ring, int col) {
    if (col == next_tile_col_) {
      if (col > 0) ring.begin_tile(next_line_);
      // Loaded a tile ahead, so nobody waits for it.
      if (++segment_ < segments_) next_line_ = line_of(segment_);
      next_tile_col_ += matrix_.segment_cols;
    }
    prefetch_raw(col + kRawAheadCols, kStepCols);
    return ring.begin_block();
  }

  // Decodes the 32 columns from `col` on to the piece; those past the last one are zeros.
  ECMV_GPU_DEVICE void decode(RingLane<kAnyBits>& ring, bool near, int col, gpu::Pointer<std::byte> piece) {
    constexpr int kQuads = kUnitCols<kBf16> / 4;
    ECMV_GPU_UNROLL
    for (int unit = 0; unit < kUnits; ++unit) {
      if (col + unit * kUnitCols<kBf16> >= cols_) {
        ECMV_GPU_UNROLL
        for (int i = 0; i < kQuads / 2; ++i) store(piece, unit * (kQuads / 2) + i, gpu::uint4{});
        continue;
      }
      const gpu::uint4 raw = ahead_[unit];
      load_unit(col + kPieceCols, unit);
      gpu::uint4 chunk{};
      const auto put = [&](int quad, uint32_t first, uint32_t second) {
        const gpu::uint2 numbers = kBf16 ? bf16_numbers(first, second, gpu::word_of(raw, quad))
                                         : f8_numbers(first, second, gpu::word_of(raw, quad / 2), quad % 2);
        if (quad % 2 == 0) {
          chunk.x = numbers.x, chunk.y = numbers.y;
        } else {
          chunk.z = numbers.x, chunk.w = numbers.y;
          store(piece, unit * (kQuads / 2) + quad / 2, chunk);
        }
      };
      uint32_t first, second;
      if (near) {
        ECMV_GPU_UNROLL
        for (int quad = 0; quad < kQuads; ++quad) {
          ring.take(first, second);
          put(quad, first, second);
        }
      } else {
        ECMV_GPU_NO_UNROLL
        for (int quad = 0; quad < kQuads; ++quad) {
          ring.take_far(first, second);
          put(quad, first, second);
        }
      }
    }
  }

 private:
  static ECMV_GPU_DEVICE void store(gpu::Pointer<std::byte> piece, int chunk, gpu::uint4 numbers) {
    *gpu::cast<gpu::uint4>(piece + gpu::place_in_piece<gpu::kPieceRowBytes>(LaneGroup::lane(), chunk)) = numbers;
  }
  // The line at which a segment's tile begins, counted from the first segment's.
  ECMV_GPU_DEVICE int line_of(int segment) const {
    return static_cast<int>(matrix_.tiles[first_tile_ + segment] - first_word_) / kGroupRows;
  }
  ECMV_GPU_DEVICE void load_unit(int col, int unit) {
    if (col + unit * kUnitCols<kBf16> < cols_)
      ahead_[unit] = gpu::load_streaming_here(raw_ + (col / kUnitCols<kBf16> + unit) * kGroupRows);
  }
  ECMV_GPU_DEVICE void load_raw(int col) {
    ECMV_GPU_UNROLL
    for (int unit = 0; unit < kUnits; ++unit) load_unit(col, unit);
  }
  ECMV_GPU_DEVICE void prefetch_raw(int col, int cols) const {
    constexpr int kUnitBytesOfGroup = kUnitBytes * kGroupRows;
    if (LaneGroup::lane() != 0 || col >= cols_) return;
    const int left = cols_ - col;
    gpu::prefetch_l2(gpu::cast<const std::byte>(raw_ + col / kUnitCols<kBf16> * kGroupRows),
                     (left < cols ? left : cols) / kUnitCols<kBf16> * kUnitBytesOfGroup);
  }

  const Matrix& matrix_;
  int64_t first_tile_;
  int segments_, cols_, segment_ = 0, next_tile_col_ = 0, next_line_ = 0;
  uint32_t first_word_ = 0;
  gpu::Pointer<const gpu::uint4> raw_{};  // this lane's
  gpu::uint4 ahead_[kUnits] = {};
};

// Starts to copy a slice of tokens for all parts of a block. The parts' columns are `part_cols` apart, from `first_col`
// on.
template <bool kTogether, int kTokenTiles>
ECMV_GPU_DEVICE void copy_parts(const gpu::Bf16Tokens& tokens, const TokenLayout& layout, int64_t first_col,
                                int part_cols, int part_bytes, gpu::Pointer<std::byte> to) {
  if constexpr (kTogether) {
    for (int p = 0; p < layout.parts; ++p)
      gpu::copy_token_blocks(tokens, first_col + int64_t{p} * part_cols, tokens.x_stride, layout.slice_cols,
                             8 * kTokenTiles, to + p * part_bytes);
  } else {
    gpu::copy_token_slices(tokens, layout.parts, part_cols, first_col, layout.slice_cols, layout.token_bytes, to);
  }
  gpu::commit_copies();
}

template <bool kBf16, int kTokenTiles, bool kTogether, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void token_product(Matrix matrix, TokenLayout layout,
                                                                    gpu::Bf16Tokens tokens) {
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group()), parts = layout.parts,
            row_groups = layout.row_groups, part = lane_group / row_groups, row_group = lane_group % row_groups,
            share = static_cast<int>(gpu::block_index() % layout.shares);
  // Row groups past the end repeat the last one; nobody stores their results.
  const int64_t row_block = gpu::block_index() / layout.shares, own_group = row_block * row_groups + row_group,
                last_group = matrix.rows / kGroupRows - 1, group = own_group < last_group ? own_group : last_group;
  const int share_segment = share * parts * layout.part_segments,
            first_segment = share_segment + part * layout.part_segments,
            segments_left = matrix.segments - first_segment;
  const gpu::Pointer<std::byte> memory = gpu::shared_memory(),
                                own_ring = memory + ((4 << layout.bits) + lane_group * kRingBytes),
                                piece = memory + (layout.pieces + lane_group * gpu::kPieceBytes),
                                all_slices = memory + layout.slices,
                                slices = kTogether ? gpu::first_block(all_slices) : all_slices;
  const int part_bytes = kTogether ? layout.slice_cols / gpu::kBlockCols * (8 * kTokenTiles * gpu::kBlockTokenBytes)
                                   : tokens.batch * layout.token_bytes,
            slice_bytes = parts * part_bytes, part_cols = layout.part_segments * matrix.segment_cols,
            own_tokens = part * part_bytes + (kTogether ? 0 : lane % 4 * gpu::Bf16Elements::kCols * 2);
  gpu::let_next_begin();

  // Earlier launches make tables and tokens.
  PartRows<kBf16> rows(matrix, group, first_segment,
                       segments_left < layout.part_segments ? segments_left : layout.part_segments);
  gpu::wait_for_previous();
  const auto copy_slice = [&](int slice) {
    copy_parts<kTogether, kTokenTiles>(tokens, layout,
                                       int64_t{share_segment} * matrix.segment_cols + slice * layout.slice_cols,
                                       part_cols, part_bytes, slices + slice % 2 * slice_bytes);
  };
  copy_slice(0);
  const gpu::Pointer<gpu::uint4> table = gpu::cast<gpu::uint4>(memory);
  for (int i = gpu::thread_index(); i < (1 << layout.bits) / 4; i += gpu::block_size())
    table[i] = gpu::load_shared_by_many(gpu::cast<const gpu::uint4>(matrix.pairs) + i);
  RingLane<kAnyBits> ring = rows.ring(own_ring, gpu::cast<const uint32_t>(memory), layout.bits);

  // The first part of a share has as many columns as any.
  const int steps = (PartRows<kBf16>::cols_of(matrix, share_segment, layout.part_segments) + kStepCols - 1) / kStepCols,
            slice_steps = layout.slice_cols / kStepCols;
  const bool looks_twice = matrix.code_bits > kShortCodeBits;
  float sums[2][kTokenTiles][4] = {};
  for (int step = 0; step < steps; ++step) {
    const int col = step * kStepCols, in_slice = step % slice_steps * kStepCols, slice = step / slice_steps;
    const bool has = col < rows.cols();
    bool near = true;
    if (has) near = rows.begin_step(ring, col);
    if (in_slice == 0) {
      // A lane that looks at its ring waits for all its earlier copies, which include this slice. A lane without
      // columns has to wait explicitly.
      if (!has) gpu::wait_copies<0>();
      if constexpr (kTogether) gpu::order_before_units();
      gpu::sync_block();
      if (step + slice_steps < steps) copy_slice(slice + 1);
    }
    if (!has) continue;
    const gpu::Pointer<const std::byte> of_slice = slices + (slice % 2 * slice_bytes + own_tokens);
    ECMV_GPU_NO_UNROLL
    for (int half = 0; half < kStepCols / kPieceCols; ++half) {
      const int at = half * kPieceCols;
      if (col + at >= rows.cols()) break;
      if (half > 0 && looks_twice) near = ring.begin_block();
      rows.decode(ring, near, col + at, piece);
      LaneGroup::sync();
      const gpu::TokenPiece<gpu::Bf16Elements> decoded{piece};
      if constexpr (kTogether)
        decoded.multiply_together<kTokenTiles>(gpu::Bf16Elements{}, of_slice, in_slice + at, sums);
      else
        decoded.multiply<kTokenTiles>(gpu::Bf16Elements{}, of_slice + (in_slice + at) * 2, layout.token_bytes,
                                      tokens.batch, sums);
      LaneGroup::sync();
    }
  }
  gpu::wait_copies<0>();
  gpu::sync_block();
  gpu::store_piece_sums<kTokenTiles>(sums, {part, parts, row_group, row_groups, share, row_block}, tokens);
}

}  // namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::segments_gpu
