// Portable kernels of quad_huffman: lane by lane of a tile, a segment of 64 columns at a time to a buffer that is then stored or
// multiplied by plain loops. Patches follow tile by tile.
#include <algorithm>
#include <array>

#include "backends/kernel.h"
#include "codecs/quad_huffman/raw_planes.h"
#include "codecs/quad_huffman/schedule.h"
#include "codecs/quad_huffman/stored.h"

namespace ecmv::codecs::quad_huffman {
namespace {

using backends::KernelCall;

int64_t rows_per_block(const CompressedView&) { return kLanes; }

// A lane's position in a tile's codes.
struct Codes {
  const uint8_t* lane;  // its word of the tile's first line
  int64_t lines, position;

  uint32_t word(int64_t line) const { return line < lines ? load_u32(lane + line * kLineBytes) : 0; }
  // The next 32 bits.
  uint32_t window() const {
    const uint64_t both = word(position / 32) | static_cast<uint64_t>(word(position / 32 + 1)) << 32;
    return static_cast<uint32_t>(both >> (position % 32));
  }
};

// The next segment's w - lowest, 0..255.
void decode_segment(const Stored& stored, Codes& codes, const uint8_t* raw, std::array<uint8_t, kSegmentCols>& offsets) {
  const uint32_t mask = (1u << stored.table_bits) - 1, low = low_bits_of_bytes(entry_shift(stored.raw_bits));
  for (int part = 0; part < kSegmentCols / 32; ++part) {
    std::array<uint32_t, kMostRawBits> words{};
    for (int j = 0; j < stored.raw_bits; ++j) words[j] = load_u32(raw + raw_word_offset(stored.raw_bits, part, j));
    std::array<uint32_t, 8> quads;
    unpack_raw(stored.raw_bits, words.data(), 1, quads.data());
    for (int q = 0; q < 8; ++q) {
      const uint32_t entry = load_u32(stored.table + 4 * (codes.window() & mask));
      codes.position += entry_length(entry);
      const uint32_t high = (entry & ~low) >> (stored.raw_bits == 0 ? 1 : 0);
      for (int k = 0; k < 4; ++k) offsets[32 * part + 4 * q + k] = static_cast<uint8_t>((high | quads[q]) >> (8 * k));
    }
  }
}

// Calls f(row, col, columns that there are, offsets) for every segment of the call's rows.
template <class F>
void for_each_segment(const Stored& stored, const KernelCall& call, F f) {
  std::array<uint8_t, kSegmentCols> offsets;
  std::array<int64_t, kMostSegments> reach;
  for (int64_t group = call.row_begin / kLanes; group * kLanes < call.row_end; ++group)
    for (int64_t column = 0; column < stored.column_tiles; ++column) {
      const int64_t tile = group * stored.column_tiles + column, segments = stored.segments_of(column);
      const int64_t lines = stored.first_line(tile + 1) - stored.first_line(tile);
      int64_t blocks = 0;
      for (int64_t s = 0; s < segments; ++s) reach[s] = reach_of(blocks += stored.schedule[tile * stored.tile_segments + s], lines);
      for (int64_t row = group * kLanes; row < std::min(call.row_end, (group + 1) * kLanes); ++row) {
        const int64_t lane = row % kLanes;
        Codes codes{stored.codes + stored.first_line(tile) * kLineBytes + 4 * lane, lines, 0};
        for (int64_t s = 0; s < segments; ++s) {
          codes.position = std::max(codes.position, 32 * (reach[std::min(s + kAhead, segments - 1)] - kRingLines));
          decode_segment(stored, codes, stored.raw_of(group, column * stored.tile_segments + s) + 8 * lane, offsets);
          const int64_t col = column * stored.tile_cols + s * kSegmentCols;
          f(row, col, std::min<int64_t>(kSegmentCols, stored.cols - col), offsets.data());
        }
      }
    }
}

// Calls f(row, col, what to add) for every patch of the call's rows.
template <class F>
void for_each_patch(const Stored& stored, const KernelCall& call, F f) {
  for (int64_t group = call.row_begin / kLanes; group * kLanes < call.row_end; ++group)
    for (int64_t column = 0; column < stored.column_tiles; ++column) {
      const int64_t tile = group * stored.column_tiles + column;
      for (int64_t i = stored.first_patch(tile); i < stored.first_patch(tile + 1); ++i) {
        const Patch patch = patch_at(stored, i);
        f(group * kLanes + patch.row, column * stored.tile_cols + patch.col, patch.delta);
      }
    }
}

void decode(const KernelCall& call) {
  if (call.row_begin >= call.row_end) return;
  const Stored stored = open_stored(*call.matrix);
  int8_t* decoded = call.decoded - call.row_begin * stored.cols;
  for_each_segment(stored, call, [&](int64_t row, int64_t col, int64_t count, const uint8_t* offsets) {
    for (int64_t i = 0; i < count; ++i) decoded[row * stored.cols + col + i] = static_cast<int8_t>(offsets[i] + stored.lowest);
  });
  for_each_patch(stored, call, [&](int64_t row, int64_t col, int delta) {
    int8_t& element = decoded[row * stored.cols + col];
    element = static_cast<int8_t>(element + delta);
  });
}

void matvec(const KernelCall& call) {
  if (call.row_begin >= call.row_end) return;
  const Stored stored = open_stored(*call.matrix);
  // Sums wrap like the int32 of the result: what stands in for an element may be larger than it.
  uint32_t* y = reinterpret_cast<uint32_t*>(call.y);
  uint32_t offset = 0;
  for (int64_t col = 0; col < stored.cols; ++col) offset += static_cast<uint32_t>(stored.lowest * call.x[col]);
  std::fill(y + call.row_begin, y + call.row_end, offset);
  for_each_segment(stored, call, [&](int64_t row, int64_t col, int64_t count, const uint8_t* offsets) {
    int32_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += offsets[i] * call.x[col + i];
    y[row] += static_cast<uint32_t>(sum);
  });
  for_each_patch(stored, call, [&](int64_t row, int64_t col, int delta) { y[row] += static_cast<uint32_t>(delta * call.x[col]); });
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "lanes", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block, .launch = decode},
    {.op = backends::Op::matvec, .variant = "lanes", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::quad_huffman
