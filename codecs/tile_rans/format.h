// Stored bytes of tile_rans, version 1. A matrix of symbols 0..15, value = fmaf(symbol, scale, zero_point), is cut into
// tiles; tiles at the right and lower edge are smaller. Every tile can be decoded by itself. Sections, everything
// little-endian:
//
//   layer   scale    f32 scale, f32 zero_point (an integer multiple of scale), u32 tiles down, u32 tiles across
//                    huffman_lanes: also u32 lines of the longest tile
//   tables  table    rans: u16 frequency[16] a tile, sum 4096
//                    huffman_lanes: u32 entry[2^table_bits] of the layer
//   index   index    rans: u32 first byte in `codes`, u32 symbols, a tile
//                    huffman_lanes: u32 first unit of 16 bytes, u32 full lines a tile, and the last tile's end (u32
//                    unit, u32 0)
//   codes   payload  rans: a tile's states (u32), then bytes in the order in which decoding takes them
//                    huffman_lanes: counts, lines and tails of a tile
//                    packed: panels, see below
//   raw     payload  huffman_lanes with symbols of 4 columns: panels of the elements' two low bits
//
// rans: a tile's symbols are coded row by row; symbol i belongs to stream i mod S; states are in [2^23, 2^31), slot =
// state & 4095.
//
// The other coders follow the operands of matrix units. A panel is 16 rows x 32 columns, dealt to 32 lanes: element (r,
// c) is byte c % 4 of quad r / 8 + 2 (c / 16) of lane 4 (r % 8) + c % 16 / 4. A tile's panels go down first, then to
// the right; the part of a panel beyond the tile is padding. A packed panel has two words a lane, one for quads 0 and 1
// and one for quads 2 and 3, with four bits of each in a byte, the even quad low. A raw panel has a word a lane, two
// bits of a byte for each quad. A symbol of huffman_lanes is two or four columns of a quad.
//
// huffman_lanes: tiles are filled up to whole pieces of 8 panels. A lane's codes of a tile are one string of bits,
// first bit lowest, cut into words. Entry i of the table is for strings that go on with the bits of i, the first one
// lowest. With symbol_cols 2, bytes 0 and 1 of an entry are the columns and the upper half is the code's length. With
// 4, byte k has the two high bits of column k in the places that they have in a symbol; the bits below are such that
// (byte 0 + 4 byte 1 + 16 byte 2) mod 64 is the length, and byte 3 has none. A tile is 32 counts of 4 bits, in byte
// lane / 2, the even lane's low; full lines, a multiple of 4: word k of all lanes, zeros past a string's end; then the
// lanes' tails, lane after lane, each of as many words as its count says; and zeros up to 16 bytes. Raw panels of a
// piece are mixed: the words of panels 0 to 3 of lane 0, of lane 1, ..., then panels 4 to 7.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::tile_rans {

enum SectionNumber { kLayer, kTables, kIndex, kCodes, kRaw, kSections };
enum class Coder : uint8_t { rans, huffman_lanes, packed };

inline constexpr int kLevels = 16;  // symbols
inline constexpr int64_t kTileRows = 64;
inline constexpr int64_t kLayerBytes = 16;
inline constexpr int64_t kCodesAlign = 16;  // sections of codes are filled up to a multiple of it

// rans.
inline constexpr int kTileProbBits = 12;
inline constexpr uint32_t kTileSlots = 1u << kTileProbBits;
inline constexpr uint32_t kByteLower = 1u << 23;
inline constexpr int64_t kTileTableBytes = 2 * kLevels, kTileIndexBytes = 8;
inline constexpr int kMostStreams = 64;

// huffman_lanes.
inline constexpr int kLanes = 32;
inline constexpr int kLaneSymbols = 256;
inline constexpr int64_t kHuffmanLayerBytes = kLayerBytes + 4, kHuffmanIndexBytes = 8, kCountBytes = kLanes / 2;
inline constexpr int kLineBytes = 4 * kLanes, kBlockLines = 4;  // full lines come in blocks
inline constexpr int kMostTailWords = 15;                       // of a lane
inline constexpr int kPiecePanels = 8;
inline constexpr int kLeastTableBits = 9, kMostTableBits = 12;  // with 8, codes of all 256 symbols would have 8 bits

// Panels.
inline constexpr int kPanelRows = 16, kPanelCols = 32, kPanelQuads = 4;  // quads of a lane
inline constexpr int64_t kPackedPanelBytes = 8 * kLanes, kRawPanelBytes = 4 * kLanes;

inline constexpr int lane_of(int row, int col) { return row % 8 * 4 + col % 16 / 4; }
inline constexpr int quad_of(int row, int col) { return row / 8 + col / 16 * 2; }
// Where a lane's quad begins in its panel.
inline constexpr int row_of(int lane, int quad) { return lane / 4 + quad % 2 * 8; }
inline constexpr int col_of(int lane, int quad) { return lane % 4 * 4 + quad / 2 * 16; }

// The number in the table of four or two columns, given as bytes of a quad: two high bits of each of four
// columns, or four bits of each of two.
inline constexpr uint32_t symbol_of_four(uint32_t quad) {
  return (quad >> 2 & 3) | (quad >> 8 & 0xC) | (quad >> 14 & 0x30) | (quad >> 20 & 0xC0);
}
inline constexpr uint32_t symbol_of_two(uint32_t pair) { return (pair & 15) | (pair >> 4 & 0xF0); }

// An entry of the table, and its fields.
inline constexpr uint32_t huffman_entry(int symbol_cols, uint32_t symbol, uint32_t length) {
  if (symbol_cols == 2) return (symbol & 15) | (symbol & 0xF0) << 4 | length << 16;
  const uint32_t highs = (symbol & 3) << 2 | (symbol & 0xC) << 8 | (symbol & 0x30) << 14 | (symbol & 0xC0) << 20;
  const uint32_t rest =
      (length - (highs & 0xFF) - 4 * (highs >> 8 & 0xFF)) & 63;  // 16 times byte 2 is a multiple of 64
  return highs | (rest & 3) | (rest & 0xC) << 6 | (rest & 0x30) << 12;
}
inline constexpr uint32_t length_of_entry(int symbol_cols, uint32_t entry) {
  return symbol_cols == 2 ? entry >> 16 : ((entry & 0xFF) + 4 * (entry >> 8 & 0xFF) + 16 * (entry >> 16 & 0xFF)) & 63;
}
inline constexpr uint32_t symbol_of_entry(int symbol_cols, uint32_t entry) {
  if (symbol_cols == 2) return (entry & 15) | (entry >> 4 & 0xF0);
  return (entry >> 2 & 3) | (entry >> 8 & 0xC) | (entry >> 14 & 0x30) | (entry >> 20 & 0xC0);
}
// Bits that an entry's columns may have.
inline constexpr uint32_t kHighBits = 0x0C0C0C0Cu, kPairBits = 0x0F0Fu;

// The layout of the bytes, as settings and shape determine it.
struct Layout {
  Coder coder = Coder::rans;
  int64_t tile_cols = 0;
  int streams = 0, symbol_cols = 0, table_bits = 0;
  datasets::Shape shape;
  int64_t tiles_down = 0, tiles_across = 0;  // 0 for a matrix without elements

  int64_t tiles() const { return tiles_down * tiles_across; }
  bool has_raw() const { return coder == Coder::huffman_lanes && symbol_cols == 4; }
  // Tiles at the edges are filled up to multiples of these.
  int64_t row_unit() const { return coder == Coder::huffman_lanes ? kTileRows : kPanelRows; }
  int64_t col_unit() const {
    return coder == Coder::huffman_lanes ? kPiecePanels * kPanelRows * kPanelCols / kTileRows : kPanelCols;
  }
  int64_t padded_cols() const { return (shape.cols + col_unit() - 1) / col_unit() * col_unit(); }
  int64_t layer_bytes() const { return coder == Coder::huffman_lanes ? kHuffmanLayerBytes : kLayerBytes; }
};

inline Layout layout_of(datasets::Shape shape, const Settings& settings) {
  Layout layout;
  const std::string_view coder = settings.text("coder"), tile = settings.text("tile");
  layout.coder = coder == "rans" ? Coder::rans : coder == "packed" ? Coder::packed : Coder::huffman_lanes;
  layout.tile_cols = tile == "64x64" ? 64 : tile == "64x256" ? 256 : 512;
  layout.streams = static_cast<int>(settings.integer("streams"));
  layout.symbol_cols = static_cast<int>(settings.integer("symbol_cols"));
  layout.table_bits = static_cast<int>(settings.integer("table_bits"));
  layout.shape = shape;
  if (shape.elements() == 0) return layout;
  layout.tiles_down = (shape.rows + kTileRows - 1) / kTileRows;
  layout.tiles_across = (shape.cols + layout.tile_cols - 1) / layout.tile_cols;
  return layout;
}

// One tile: where it begins, its size, its panels.
struct Tile {
  int64_t number, row, col;
  int rows, cols;
  int panels_down, panels_across;
  int64_t first_panel;  // of the matrix
  int panels() const { return panels_down * panels_across; }
  int lane_quads() const { return panels() * kPanelQuads; }
};

inline int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

inline Tile tile_at(const Layout& layout, int64_t down, int64_t across) {
  Tile tile{};
  tile.number = down * layout.tiles_across + across;
  tile.row = down * kTileRows;
  tile.col = across * layout.tile_cols;
  tile.rows = static_cast<int>(std::min(kTileRows, layout.shape.rows - tile.row));
  tile.cols = static_cast<int>(std::min(layout.tile_cols, layout.shape.cols - tile.col));
  tile.panels_down = static_cast<int>(round_up(tile.rows, layout.row_unit()) / kPanelRows);
  tile.panels_across = static_cast<int>(round_up(tile.cols, layout.col_unit()) / kPanelCols);
  tile.first_panel =
      tile.row / kPanelRows * (layout.padded_cols() / kPanelCols) + tile.col / kPanelCols * tile.panels_down;
  return tile;
}

inline int64_t panels_of(const Layout& layout) {
  return layout.shape.elements() == 0
             ? 0
             : round_up(layout.shape.rows, layout.row_unit()) / kPanelRows * (layout.padded_cols() / kPanelCols);
}
// The place of a lane and panel's raw word in section `raw`, in words.
inline int64_t raw_word(int64_t panel, int lane) { return panel / 4 * 4 * kLanes + int64_t{lane} * 4 + panel % 4; }

}  // namespace ecmv::codecs::tile_rans
