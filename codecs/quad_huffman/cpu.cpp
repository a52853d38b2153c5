// Portable kernels of quad_huffman: lane by lane of a tile, a segment at a time to a buffer that is then stored or
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

// The next segment's w - lowest, 0..255.
void decode_segment(const Stored& stored, const TileCodes& codes, int lane, int64_t& position, const uint8_t* raw, std::array<uint8_t, kMostSegmentCols>& offsets) {
  const int each = stored.symbol_cols;
  const uint32_t mask = (1u << stored.table_bits) - 1;
  for (int i = 0; i < kSegmentSymbols; ++i) {
    const uint64_t both = codes.word(position / 32, lane) | static_cast<uint64_t>(codes.word(position / 32 + 1, lane)) << 32;
    const int64_t entry = static_cast<uint32_t>(both >> (position % 32)) & mask;
    position += stored.entry_length(entry);
    for (int k = 0; k < each; ++k) offsets[each * i + k] = static_cast<uint8_t>(stored.entry_high(entry, k) << stored.raw_bits);
  }
  for (int group = 0; group < stored.segment_cols() / 32; ++group) {
    std::array<uint32_t, kMostRawBits> words{};
    for (int j = 0; j < stored.raw_bits; ++j) words[j] = load_u32(raw + stored.raw_word_offset(group, j));
    std::array<uint32_t, 8> quads;
    unpack_raw(stored.raw_bits, words.data(), quads.data());
    for (int i = 0; i < 32; ++i) offsets[32 * group + i] |= static_cast<uint8_t>(quads[i / 4] >> (8 * (i % 4)));
  }
}

// Calls f(row, col, columns that there are, offsets) for every segment of the call's rows.
template <class F>
void for_each_segment(const Stored& stored, const KernelCall& call, F f) {
  std::array<uint8_t, kMostSegmentCols> offsets;
  std::array<int64_t, kMostSegments> reach;
  const int segment_cols = stored.segment_cols();
  for (int64_t group = call.row_begin / kLanes; group * kLanes < call.row_end; ++group)
    for (int64_t column = 0; column < stored.column_tiles; ++column) {
      const int64_t tile = group * stored.column_tiles + column, segments = stored.segments_of(column);
      const TileCodes codes(stored, stored.tile(tile));
      int64_t blocks = 0;
      for (int64_t s = 0; s < segments; ++s) reach[s] = reach_of(blocks += stored.schedule[tile * stored.tile_segments + s], codes.lines());
      for (int64_t row = group * kLanes; row < std::min(call.row_end, (group + 1) * kLanes); ++row) {
        const int lane = static_cast<int>(row % kLanes);
        int64_t position = 0;
        for (int64_t s = 0; s < segments; ++s) {
          position = std::max(position, 32 * (reach[std::min(s + kAhead, segments - 1)] - kRingLines));
          decode_segment(stored, codes, lane, position, stored.raw_of(group, column * stored.tile_segments + s) + stored.raw_lane_bytes() * lane, offsets);
          const int64_t col = column * stored.tile_cols + s * segment_cols;
          f(row, col, std::min<int64_t>(segment_cols, stored.cols - col), offsets.data());
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
      const TileIndex index = stored.tile(tile);
      for (int64_t i = index.first_patch; i < stored.first_patch(tile + 1); ++i) {
        const Patch patch = stored.patch(index, i);
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
