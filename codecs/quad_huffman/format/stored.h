// The stored matrix as readers on a host see it: the header, and pointers into the sections.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format/header.h"
#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/format/patches.h"
#include "codecs/quad_huffman/format/raw_planes.h"

namespace ecmv::codecs::quad_huffman {

// Little-endian values at any address.
inline uint32_t load_u32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, 4);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  return value;
}
inline uint32_t load_u16(const uint8_t* p) { return p[0] | uint32_t{p[1]} << 8; }

// A tile's place in the sections, and its size.
struct TileIndex {
  int64_t first_unit, first_patch, left_patches;
  int full_lines, partial_lines;
  int lines() const { return full_lines + partial_lines; }
  int mask_units() const { return (partial_lines + 3) / 4; }
};

// Unpacks a lane's raw words of 32 columns to the bits below the high parts, a byte a column in quads[8].
inline void unpack_group(int symbol_cols, Form form, const uint32_t* words, uint32_t* quads) {
  const uint32_t* planes = words + sign_mantissa_bits(form);
  if (has_exponent_eights(symbol_cols, form)) return unpack_eights(planes, quads);
  unpack_raw(planes_of(form), has_nibble_entries(symbol_cols, form), planes, quads);
}
// Floats: sign and mantissa of column `col`, the sign in the byte's highest bit and the mantissa in its lowest ones.
inline uint8_t sign_of_col(int symbol_cols, Form form, const uint32_t* words, int col) {
  if (has_exponent_eights(symbol_cols, form)) return eights_sign(form.f8, words, col);
  return form.f8 ? f8_sign(words, col) : static_cast<uint8_t>(words[col / 4] >> (8 * (col % 4)));
}
// int8: w - lowest for high part `high` and raw bits `raw`; floats: exponent - lowest.
inline int offset_of_parts(Form form, int high, int raw) {
  const int magnitude = (high << cell_bits(form)) | (raw & ((1 << cell_bits(form)) - 1));
  return form.folded && (raw >> cell_bits(form) & 1) != 0 ? -magnitude - 1 : magnitude;
}
// The bits of a float with such a byte of sign and mantissa.
inline uint16_t float_bits_of(Form form, int exponent, int sign) {
  if (form.f8) return static_cast<uint16_t>(sign | (exponent & 15) << 3);  // a substitute may be 16
  return static_cast<uint16_t>((sign & 0x80) << 8 | exponent << 7 | (sign & 0x7f));
}
inline int length_of_entry(int symbol_cols, Form form, uint32_t entry) {
  if (has_packed_entries(symbol_cols, form)) return static_cast<int>(entry >> 28);
  if (has_summed_lengths(symbol_cols, form))
    return static_cast<int>(sum_of_lengths(symbol_cols, entry) & kSummedLengthMask);
  return static_cast<int>((entry & 1) | (entry >> 7 & 2) | (entry >> 14 & 4) | (entry >> 21 & 8));
}

struct Stored : Header {
  int64_t rows, cols;    // the stored matrix
  datasets::Shape size;  // the matrix: the same, except for fragments and strips
  int tile_cols;
  int64_t row_groups, column_tiles, row_segments;
  int64_t raw_row_bytes;  // a row group's raw bits
  const uint8_t *table, *tiles, *schedule, *codes, *raw, *patches;

  bool fragments() const { return layout == Layout::fragments; }
  bool strips() const { return layout == Layout::strips; }
  FragmentRuns runs() const { return fragment_runs(form.floats); }
  // The place in the matrix of the element at `row`, `col` of the stored one.
  ElementPlace place_of(int64_t row, int64_t col) const {
    if (strips()) return place_of_strip(row, col);
    return fragments() ? place_of_fragment(row, col, runs()) : ElementPlace{row, col};
  }
  // Rows of the matrix in a tile.
  int tile_rows() const { return fragments() ? kUnitRows : kLanes; }

  int segment_cols() const { return quad_huffman::segment_cols(symbol_cols); }
  TileIndex tile(int64_t number) const {
    const uint8_t* words = tiles + kTileBytes * number;
    const uint32_t lines = load_u32(words + 12);
    return {load_u32(words), load_u32(words + 4), load_u32(words + 8), static_cast<int>(lines & 0xffff) * kBlockLines,
            static_cast<int>(lines >> 16)};
  }
  int64_t first_patch(int64_t tile) const { return load_u32(tiles + kTileBytes * tile + 4); }
  // Columns of a tile in column `column` of the tiles, and its segments that have any.
  int64_t cols_of(int64_t column) const { return std::min<int64_t>(tile_cols, cols - column * tile_cols); }
  int64_t segments_of(int64_t column) const { return (cols_of(column) + segment_cols() - 1) / segment_cols(); }
  const uint8_t* raw_of(int64_t group, int64_t segment_of_row) const {
    return raw + group * raw_row_bytes + segment_of_row * raw_bytes_of_segment(symbol_cols, form);
  }
  // Bytes from a lane's raw words to the next one's.
  int raw_lane_bytes() const { return 4 * raw_unit_words(symbol_cols, form); }
  int cell_bits() const { return quad_huffman::cell_bits(form); }

  // The functions below, for this form.
  void unpack(const uint32_t* words, uint32_t* quads) const { unpack_group(symbol_cols, form, words, quads); }
  uint8_t sign_of(const uint32_t* words, int col) const { return sign_of_col(symbol_cols, form, words, col); }
  int offset_of(int high, int raw) const { return offset_of_parts(form, high, raw); }
  uint16_t float_bits(int exponent, int sign) const { return float_bits_of(form, exponent, sign); }
  int element_bytes() const { return form.floats && !form.f8 ? 2 : 1; }

  StoredPatch float_patch(int64_t i) const {
    const uint32_t bits = load_u32(patches + kPatchWordBytes * i);
    return {static_cast<int>(bits % kLanes), static_cast<int>(bits / kLanes % kMostTileCols),
            static_cast<int>(bits >> 16 & 255), static_cast<int>(bits >> 24)};
  }
  // The signs and mantissas of all patches of floats, a byte each.
  const uint8_t* signs_of_patches() const { return patches + kPatchWordBytes * first_patch(row_groups * column_tiles); }
  // Patch number i of the matrix, in a tile of int8 rows or fragments.
  Patch patch(const TileIndex& tile, int64_t i) const {
    const uint32_t bits = load_u16(patches + 2 * i);
    const int half = i - tile.first_patch < tile.left_patches ? 0 : kPatchCols;
    return {static_cast<int>(bits % kLanes), half + static_cast<int>(bits / kLanes % kPatchCols),
            (bits >> 15 != 0 ? -1 : 1) * (1 << cell_bits())};
  }

  // Bits of the longest code.
  int most_code_bits() const { return table_bits + (rotated ? kRotationBits : 0); }
  // Entry i of the table.
  uint32_t entry(int64_t i) const { return load_u32(table + 4 * i); }
  int entry_length(int64_t i) const { return length_of_entry(symbol_cols, form, entry(i)); }
  int entry_high(int64_t i, int k) const {
    if (symbol_cols == 8) return static_cast<int>(entry(i) >> high_shift(8, form, k) & 3);
    return static_cast<int>((entry(i) >> (8 * k) & 0xff) >> entry_shift(form));
  }
};

// Trusts the bytes, except for the header's size; decode.cpp checks them.
inline Stored open_stored(const CompressedView& view) {
  const auto bytes = [&](int section) { return reinterpret_cast<const uint8_t*>(view.sections[section].bytes.data()); };
  Stored s{};
  static_cast<Header&>(s) = header_of(view);
  s.size = view.shape;
  const datasets::Shape shape = stored_shape(view.shape, s.layout);
  s.rows = shape.rows, s.cols = shape.cols;
  s.tile_cols = tile_cols_of(s);
  s.row_groups = row_groups(s.rows), s.column_tiles = s.tile_cols == 0 ? 0 : column_tiles(s.cols, s.tile_cols);
  s.row_segments = row_segments(s.cols, s.symbol_cols);
  s.raw_row_bytes = raw_bytes_of_cols(s, s.cols);
  s.table = bytes(kTable), s.tiles = bytes(kTiles), s.schedule = bytes(kSchedule), s.codes = bytes(kCodes);
  s.raw = bytes(kRaw), s.patches = bytes(kPatches);
  return s;
}

// The words of a tile's codes, lane by lane. Assumes checked bytes.
class TileCodes {
 public:
  TileCodes(const Stored& stored, const TileIndex& tile) : full_lines_(tile.full_lines), lines_(tile.lines()) {
    const uint8_t* masks = stored.codes + tile.first_unit * kUnitBytes;
    full_ = masks + tile.mask_units() * kUnitBytes;
    const uint8_t* next = full_ + tile.full_lines * kLineBytes;
    for (int i = 0; i < tile.partial_lines; ++i) {
      masks_[i] = load_u32(masks + 4 * i);
      partial_[i] = next;
      next += 4 * std::popcount(masks_[i]);
    }
  }
  int lines() const { return lines_; }
  // Returns 0 where the lane has no such word.
  uint32_t word(int64_t line, int lane) const {
    if (line < full_lines_) return load_u32(full_ + line * kLineBytes + 4 * lane);
    if (line >= lines_) return 0;
    const uint32_t mask = masks_[line - full_lines_];
    if ((mask >> lane & 1) == 0) return 0;
    return load_u32(partial_[line - full_lines_] + 4 * std::popcount(mask & ((1u << lane) - 1)));
  }
  // The lane's code bits from `position` on, 33 or more.
  uint64_t window(int64_t position, int lane) const {
    return (word(position / 32, lane) | uint64_t{word(position / 32 + 1, lane)} << 32) >> (position % 32);
  }

 private:
  int full_lines_, lines_;
  const uint8_t* full_;
  std::array<uint32_t, kMostPartialLines> masks_;  // the lanes that have words of a partial line
  std::array<const uint8_t*, kMostPartialLines> partial_;
};

}  // namespace ecmv::codecs::quad_huffman
