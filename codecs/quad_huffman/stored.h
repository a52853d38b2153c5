// The stored matrix as readers see it: pointers into the sections and the numbers of the header.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format.h"

namespace ecmv::codecs::quad_huffman {

// Little-endian values at any address.
inline uint32_t load_u32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, 4);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  return value;
}
inline uint32_t load_u16(const uint8_t* p) { return p[0] | uint32_t{p[1]} << 8; }

// What a table entry says.
inline int entry_length(uint32_t entry) { return static_cast<int>((entry & 1) | (entry >> 7 & 2) | (entry >> 14 & 4) | (entry >> 21 & 8)); }
inline int entry_high(uint32_t entry, int k, int raw_bits) { return static_cast<int>((entry >> (8 * k) & 0xff) >> entry_shift(raw_bits)); }

struct Stored {
  int64_t rows, cols;
  int raw_bits, table_bits, lowest, tile_cols;
  int64_t row_groups, column_tiles, row_segments, tile_segments;
  const uint8_t *table, *tiles, *schedule, *codes, *raw, *positions, *deltas;

  int64_t first_line(int64_t tile) const { return load_u32(tiles + 8 * tile); }
  int64_t first_patch(int64_t tile) const { return load_u32(tiles + 8 * tile + 4); }
  // Of the tile in column `column` of the tiles: columns, and segments that have any.
  int64_t cols_of(int64_t column) const { return std::min<int64_t>(tile_cols, cols - column * tile_cols); }
  int64_t segments_of(int64_t column) const { return (cols_of(column) + kSegmentCols - 1) / kSegmentCols; }
  const uint8_t* raw_of(int64_t group, int64_t segment_of_row) const {
    return raw + (group * row_segments + segment_of_row) * raw_bytes_of_segment(raw_bits);
  }
};

// Trusts the bytes, but for the header's presence; codec.cpp checks them.
inline Stored open_stored(const CompressedView& view) {
  const auto bytes = [&](int section) { return reinterpret_cast<const uint8_t*>(view.sections[section].bytes.data()); };
  const uint8_t* header = bytes(kHeader);
  Stored s{};
  s.rows = view.shape.rows, s.cols = view.shape.cols;
  s.raw_bits = header[0], s.table_bits = header[1];
  s.lowest = static_cast<int16_t>(load_u16(header + 2));
  s.tile_cols = 1 << (header[4] & 15);
  s.row_groups = row_groups(s.rows), s.column_tiles = column_tiles(s.cols, s.tile_cols);
  s.row_segments = row_segments(s.cols), s.tile_segments = tile_segments(s.tile_cols);
  s.table = bytes(kTable), s.tiles = bytes(kTiles), s.schedule = bytes(kSchedule), s.codes = bytes(kCodes);
  s.raw = bytes(kRaw), s.positions = bytes(kPositions), s.deltas = bytes(kDeltas);
  return s;
}

// Where the patch leads, and by how much the element grows.
struct Patch {
  int row, col, delta;
};
inline Patch patch_at(const Stored& stored, int64_t i) {
  const uint32_t position = load_u16(stored.positions + 2 * i);
  const int nibble = stored.deltas[i / 2] >> (i % 2 * 4) & 15;
  return {static_cast<int>(position % kLanes), static_cast<int>(position / kLanes), ((nibble ^ 8) - 8) * (1 << stored.raw_bits)};
}

}  // namespace ecmv::codecs::quad_huffman
