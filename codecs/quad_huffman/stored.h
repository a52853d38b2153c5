// The stored matrix as readers on a host see it: pointers into the sections and the numbers of the header.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format.h"
#include "codecs/quad_huffman/fragments.h"
#include "codecs/quad_huffman/raw_planes.h"
#include "codecs/quad_huffman/strips.h"

namespace ecmv::codecs::quad_huffman {

// Little-endian values at any address.
inline uint32_t load_u32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, 4);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  return value;
}
inline uint32_t load_u16(const uint8_t* p) { return p[0] | uint32_t{p[1]} << 8; }

// The element that a patch corrects, and by how much.
struct Patch {
  int row, col, delta;
};

// The same of bf16 and f8: the exponent that the element has, and the coded one.
struct FloatPatch {
  int row, col, exponent, stand_in;
};

// A tile's place in the sections, and its size.
struct TileIndex {
  int64_t first_unit, first_patch, left_patches;
  int full_lines, partial_lines;
  int lines() const { return full_lines + partial_lines; }
  // Units of 16 bytes of the masks.
  int mask_units() const { return (partial_lines + 3) / 4; }
};

struct Stored {
  int64_t rows, cols;    // of what is stored
  datasets::Shape size;  // of the matrix: the same, but for fragments
  bool fragments, strips, rotated;
  int form, table_bits, lowest, tile_cols, symbol_cols;  // form: of the raw bits, format.h
  int largest_stand_in;                                  // of floats
  bool since_7;                                          // of floats: whether patches have signs and fragments pairs
  int64_t row_groups, column_tiles, row_segments, tile_segments;
  const uint8_t *table, *tiles, *schedule, *codes, *raw, *patches;

  FragmentRuns runs() const { return floats() && since_7 ? FragmentRuns::pairs : FragmentRuns::fours; }
  // Where in the matrix the element is that is at `row`, `col` of what is stored.
  ElementPlace place_of(int64_t row, int64_t col) const {
    if (strips) return place_of_strip(row, col);
    return fragments ? place_of_fragment(row, col, runs()) : ElementPlace{row, col};
  }
  // Rows of the matrix that a tile has.
  int tile_rows() const { return fragments ? kUnitRows : kLanes; }

  int segment_cols() const { return quad_huffman::segment_cols(symbol_cols); }
  TileIndex tile(int64_t number) const {
    const uint8_t* words = tiles + kTileBytes * number;
    const uint32_t lines = load_u32(words + 12);
    return {load_u32(words), load_u32(words + 4), load_u32(words + 8), static_cast<int>(lines & 0xffff) * 4,
            static_cast<int>(lines >> 16)};
  }
  int64_t first_patch(int64_t tile) const { return load_u32(tiles + kTileBytes * tile + 4); }
  // Columns of a tile in column `column` of the tiles, and segments that have any.
  int64_t cols_of(int64_t column) const { return std::min<int64_t>(tile_cols, cols - column * tile_cols); }
  int64_t segments_of(int64_t column) const { return (cols_of(column) + segment_cols() - 1) / segment_cols(); }
  const uint8_t* raw_of(int64_t group, int64_t segment_of_row) const {
    return raw + (group * row_segments + segment_of_row) * raw_bytes_of_segment(symbol_cols, form);
  }
  int raw_word_offset(int group, int j) const { return quad_huffman::raw_word_offset(symbol_cols, form, group, j); }
  // Bytes from a lane's raw words to the next one's.
  int raw_lane_bytes() const { return 4 * raw_unit_words(symbol_cols, form); }

  bool floats() const { return is_float(form); }
  bool folded() const { return is_folded(form); }
  int raw_bits() const { return raw_bits_of(form); }
  int cell_bits() const { return quad_huffman::cell_bits(form); }
  bool has_nibbles() const { return has_nibble_entries(symbol_cols, form); }
  // Raw bits of quads[8] from the words of their 32 columns; of floats those below the high parts.
  void unpack(const uint32_t* words, uint32_t* quads) const {
    if (has_exponent_eights(symbol_cols, form)) return unpack_eights(words + sign_mantissa_bits(form), quads);
    if (has_nibbles()) return unpack_nibbles(raw_bits(), words, quads);
    unpack_raw(planes_of(floats() ? cell_bits() : raw_bits(), folded()),
               words + (floats() ? sign_mantissa_bits(form) : 0), quads);
  }
  // Of the same words, of floats: what column `col` of the 32 has but for its exponent, the sign as the highest bit of the
  // byte, the mantissa as the lowest ones.
  uint8_t sign_of(const uint32_t* words, int col) const {
    if (has_exponent_eights(symbol_cols, form)) return eights_sign(is_f8(form), words, col);
    return is_f8(form) ? f8_sign(words, col) : static_cast<uint8_t>(words[col / 4] >> (8 * (col % 4)));
  }
  // The bits of an element with such a byte.
  uint16_t float_bits(int exponent, int sign) const {
    if (is_f8(form)) return static_cast<uint16_t>(sign | (exponent & 15) << 3);  // what stands in may be 16
    return static_cast<uint16_t>((sign & 0x80) << 8 | exponent << 7 | (sign & 0x7f));
  }
  int element_bytes() const { return floats() && !is_f8(form) ? 2 : 1; }
  // w - lowest of an int8 element with high part `high` and raw bits `raw`.
  int offset_of(int high, int raw) const {
    const int magnitude = (high << cell_bits()) | (raw & ((1 << cell_bits()) - 1));
    return folded() && (raw >> cell_bits() & 1) != 0 ? -magnitude - 1 : magnitude;
  }
  FloatPatch float_patch(int64_t i) const {
    const uint32_t bits = load_u32(patches + kPatchWordBytes * i);
    return {static_cast<int>(bits % kLanes), static_cast<int>(bits / kLanes % kMostTileCols),
            static_cast<int>(bits >> 16 & 255), static_cast<int>(bits >> 24)};
  }
  // Of all patches of floats the signs, a byte each.
  const uint8_t* signs_of_patches() const { return patches + kPatchWordBytes * first_patch(row_groups * column_tiles); }
  // Patch number i of the matrix, of a tile; not of strips.
  Patch patch(const TileIndex& tile, int64_t i) const {
    const uint32_t bits = load_u16(patches + 2 * i);
    const int half = i - tile.first_patch < tile.left_patches ? 0 : kPatchCols;
    return {static_cast<int>(bits % kLanes), half + static_cast<int>(bits / kLanes % kPatchCols),
            (bits >> 15 != 0 ? -1 : 1) * (1 << cell_bits())};
  }

  // Calls f(patch, its place) for those of packets `first` to `end` of strips.
  template <class F>
  void for_each_placed_patch(int64_t first, int64_t end, F f) const {
    int64_t place = 0;
    for (int64_t packet = first; packet < end; ++packet)
      for (int i = 0; i < kPacketPatches; ++i) {
        const PlacedPatch patch = placed_patch(patches + kPacketBytes * packet, i);
        place += patch.distance;
        if (patch.is_there()) f(patch, place);
      }
  }

  // Bits of the longest code.
  int most_code_bits() const { return table_bits + (rotated ? kRotationBits : 0); }
  // What entry i of the table says.
  uint32_t entry(int64_t i) const { return load_u32(table + 4 * i); }
  int entry_length(int64_t i) const {
    const uint32_t entry = this->entry(i);
    if (symbol_cols == 2) return static_cast<int>(entry >> 16);
    if (has_packed_entries(symbol_cols, form)) return static_cast<int>(entry >> 28);
    if (has_summed_lengths(symbol_cols, form)) return static_cast<int>(length_of_sum(symbol_cols, entry));
    return static_cast<int>((entry & 1) | (entry >> 7 & 2) | (entry >> 14 & 4) | (entry >> 21 & 8));
  }
  int entry_high(int64_t i, int k) const {
    if (symbol_cols == 8) return static_cast<int>(entry(i) >> eights_shift(form, k) & 3);
    return static_cast<int>((entry(i) >> (8 * k) & 0xff) >> entry_shift(symbol_cols, form));
  }
};

// Trusts the bytes, but for the header's presence; codec.cpp checks them.
inline Stored open_stored(const CompressedView& view) {
  const auto bytes = [&](int section) { return reinterpret_cast<const uint8_t*>(view.sections[section].bytes.data()); };
  const uint8_t* header = reinterpret_cast<const uint8_t*>(view.sections[kHeader].host.data());
  Stored s{};
  s.size = view.shape, s.fragments = is_fragments(view), s.strips = is_strips(view), s.rotated = is_rotated(view);
  const datasets::Shape shape = stored_shape(view);
  s.rows = shape.rows, s.cols = shape.cols;
  s.form = header[0], s.table_bits = header[1];
  s.lowest = static_cast<int16_t>(load_u16(header + 2));
  s.symbol_cols = 1 << (header[5] & 3);
  s.since_7 = (header[5] & kSince7) != 0;
  s.tile_cols = stored_tile_cols(header[4], s.symbol_cols);
  s.largest_stand_in =
      is_float(s.form) && view.sections[kHeader].host.size() >= static_cast<size_t>(kFloatHeaderBytes) ? header[6] : 0;
  s.row_groups = row_groups(s.rows), s.column_tiles = column_tiles(s.cols, s.tile_cols);
  s.row_segments = row_segments(s.cols, s.symbol_cols), s.tile_segments = s.tile_cols / s.segment_cols();
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
  int full_lines() const { return full_lines_; }
  const uint8_t* full() const { return full_; }
  // Of a partial line: which lanes have words, and where the first word of a lane from `lane` on is.
  uint32_t mask(int64_t line) const { return masks_[line - full_lines_]; }
  const uint8_t* partial(int64_t line, int lane) const {
    return partial_[line - full_lines_] + 4 * std::popcount(mask(line) & ((1u << lane) - 1));
  }
  // 0 where the lane has none.
  uint32_t word(int64_t line, int lane) const {
    if (line < full_lines_) return load_u32(full_ + line * kLineBytes + 4 * lane);
    if (line >= lines_ || (mask(line) >> lane & 1) == 0) return 0;
    return load_u32(partial(line, lane));
  }

 private:
  int full_lines_, lines_;
  const uint8_t* full_;
  std::array<uint32_t, kMostPartialLines> masks_;
  std::array<const uint8_t*, kMostPartialLines> partial_;
};

}  // namespace ecmv::codecs::quad_huffman
