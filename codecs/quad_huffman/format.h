// Stored bytes of quad_huffman, version 1: made so that a GPU lane, which owns a row, decodes four columns by one table look-up.
//
// An element is w = lowest + h * 2^B + r: r, the raw bits, is stored plainly; the high parts h of four neighbouring columns are
// one symbol (a quad) of one length-limited Huffman code for the whole matrix. Only h in 0..15 have codes. What the code cannot
// say is said nearly, and patches add the difference.
//
//   header     5 bytes: B, T, lowest (int16, little-endian), log2 of columns of a tile
//   table      2^T uint32. Entry i is for streams whose next bits, first bit lowest, are i: byte k holds h of column k
//              shifted left by max(B, 1); bit 0 of byte k is bit k of the length of the code (1..T)
//   tiles      2 uint32 a tile and 2 more: number of its first line and of its first patch
//   schedule   a byte a segment: blocks of 4 lines to have before it (of a narrow last tile the rest is 0)
//   codes      lines of 32 words (128 bytes)
//   raw        4 * B words a lane and segment
//   positions  uint16 a patch: row in the tile + 32 * column in the tile
//   deltas     4 bits a patch, low nibble first, two's complement: what to add to h
//
// A tile is 32 rows by `tile_cols` columns; tiles of the same rows follow each other. Rows beyond the last and columns up to the
// next multiple of 128 are filled with whatever codes shortest. A lane's codes are one string of bits, first bit
// lowest; its word k is word `lane` of line k. The lines of a tile are as many as its longest lane needs.
//
// A segment is 128 columns of a tile. A decoder keeps the last kRingLines lines, and begins to fetch those of a segment
// kAhead segments before. With reach(s) = min(4 * (schedule[0] + ... + schedule[s]), lines of the tile): before segment s every lane's
// position becomes max(position, 32 * (reach(min(s + kAhead, last)) - kRingLines)), and all code bits of segment s, and the line
// behind the one with its last bit, if there is one, are before reach(s). So lanes may drift apart, and no data makes the ring overflow.
//
// Raw bits of 32 columns (quads q = 0..7) are B words; each half of a segment stores, for j = 0..B-1, for each lane, word j of its
// first 32 columns and word j of the other 32. Byte k of a word is for column k of its quads. The words are planes of 4, 3, 2 and
// 1 bits, the widest first and for the lowest bits (kPlanes); fields of a plane, from the low end of each byte:
//   4 bits: word q / 2, field q % 2    2 bits: word q / 4, field q % 4    1 bit: word 0, field q
//   3 bits: word q / 2, field q % 2 for q < 6; the last two bits of bytes of words 0, 1, 2 together are the fields of quads 6, 7
#pragma once

#include <cstdint>

namespace ecmv::codecs::quad_huffman {

// Section numbers.
inline constexpr int kHeader = 0, kTable = 1, kTiles = 2, kSchedule = 3, kCodes = 4, kRaw = 5, kPositions = 6, kDeltas = 7, kSections = 8;

inline constexpr int kHeaderBytes = 5;
inline constexpr int kLanes = 32;            // rows of a tile
inline constexpr int kSegmentCols = 128;
inline constexpr int kMostTileCols = 2048;   // positions of patches have 16 bits
inline constexpr int kLineWords = kLanes, kLineBytes = 4 * kLineWords;
inline constexpr int kBlockLines = 4;
inline constexpr int kRingLines = 32, kAhead = 1;
inline constexpr int kHighValues = 16;       // of h, that may have codes
inline constexpr int kMostRawBits = 7;
inline constexpr int kLeastTableBits = 8, kMostTableBits = 13;

// A lane that is moved forward must not by that become the one that decides how much is fetched.
static_assert((kAhead + 1) * (kSegmentCols / 4) * kMostTableBits / 32 + kBlockLines + 2 <= kRingLines);

// Widths of the planes of B raw bits, lowest bits first; 0: none.
inline constexpr int kPlanes[kMostRawBits + 1][2] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {4, 1}, {4, 2}, {4, 3}};

// Bits by which h is shifted inside a table entry; without raw bits the bytes are twice the elements, as bit 0 is taken.
inline constexpr int entry_shift(int raw_bits) { return raw_bits == 0 ? 1 : raw_bits; }

inline constexpr int64_t row_groups(int64_t rows) { return (rows + kLanes - 1) / kLanes; }
inline constexpr int64_t column_tiles(int64_t cols, int tile_cols) { return (cols + tile_cols - 1) / tile_cols; }
inline constexpr int64_t tile_segments(int tile_cols) { return tile_cols / kSegmentCols; }
// Segments of a whole row; all tiles of it but the last have tile_segments().
inline constexpr int64_t row_segments(int64_t cols) { return (cols + kSegmentCols - 1) / kSegmentCols; }
inline constexpr int64_t raw_bytes_of_segment(int raw_bits) { return int64_t{kSegmentCols / 8} * raw_bits * kLanes; }
// Where word j of lane 0 is for columns [32 * part, 32 * part + 32) of a segment; lanes are 8 bytes apart.
inline constexpr int raw_word_offset(int raw_bits, int part, int j) { return part / 2 * 8 * raw_bits * kLanes + 8 * kLanes * j + part % 2 * 4; }

// Columns of a tile for a matrix of that shape where the setting is 0: so wide that there are still about four thousand tiles, two
// for each of 16 waves of 132 multiprocessors; a tile ends in padding to its longest lane, so wide ones are smaller.
inline constexpr int default_tile_cols(int64_t rows, int64_t cols) {
  int tile_cols = kMostTileCols;
  while (tile_cols > 256 && row_groups(rows) * column_tiles(cols, tile_cols) < 4000) tile_cols /= 2;
  return tile_cols;
}

}  // namespace ecmv::codecs::quad_huffman
