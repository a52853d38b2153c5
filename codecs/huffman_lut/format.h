// Stored bytes of huffman_lut, version 1; all integers little-endian. The setting `layout` chooses one of two layouts
// that share nothing but the idea; both are drawn in README.md.
//
// `hierarchical` codes every element by itself, bits MSB first; thread i of 512 in a block owns 8 coded bytes.
// `single_level` codes a tuple of 4 or 2 neighbouring elements' high parts at once, bits LSB first, in S streams a
// block
// of rows. With cols elements a row and `tile` = 256 columns:
//   unit u of a tile = the columns  4 high parts: c, c+1, c+32, c+33 with c = 64 (u / 16) + 2 (u mod 16)
//                                   2 high parts: c, c+1             with c = 2 u
//   tuple (16 bits)  = 4 high parts: h[c] | h[c+32] << 4 | h[c+1] << 8 | h[c+33] << 12     2: h[c] | h[c+1] << 8
//   element          = lowest + (high << raw_bits | raw), plus its patches.
// A row codes the units whose first column exists, in order; unit k of the row goes to stream k mod S of its block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ecmv::codecs::huffman_lut {

namespace hierarchical {

// Sections.
inline constexpr int kLuts = 0;             // u8 [tables + 1, 256]; the last row: code lengths
inline constexpr int kEncoded = 1;          // bit stream and kSpareBytes
inline constexpr int kOutputPositions = 2;  // u32 [blocks + 1]
inline constexpr int kGaps = 3;             // 5 bits a thread, MSB first, and one spare byte
inline constexpr int kOffset = 4;           // i32: element = symbol + offset
inline constexpr int kSections = 5;

inline constexpr int kThreadBytes = 8;     // coded bytes of a thread
inline constexpr int kBlockThreads = 512;  // threads of an output position
inline constexpr int kBlockBytes = kThreadBytes * kBlockThreads;
inline constexpr int kSpareBytes = 8;  // a thread looks 4 bytes ahead; CPU kernels load 8 bytes at a time
inline constexpr int kGapBits = 5;
inline constexpr int kMaxCodeBits = 32;
inline constexpr int kMaxSymbols = 240;  // entries 240..255 point to row 256 - entry
inline constexpr int kMaxSubtables = 16;

}  // namespace hierarchical

namespace single_level {

// Sections.
inline constexpr int kStreams = 0;  // the blocks' streams one after the other, and kStreamPadding spare bytes
inline constexpr int kRawBits = 1;  // row after row, see raw_row_bytes()
inline constexpr int kPatches = 2;  // u16 gap, i8 addend: 3 bytes each, and one spare byte
inline constexpr int kCode = 3;     // CodeHeader, then u16 tuples in canonical order
inline constexpr int kBlocks =
    4;  // a record a block and a last one: u64 stream_begin, u64 patch_begin, u32 stream_bytes[S]
inline constexpr int kSections = 5;

inline constexpr int kStreamPadding = 8;  // readers load 8 bytes at a time
inline constexpr int kPatchBytes = 3;
inline constexpr int kPatchPadding = 1;  // readers load 4 bytes
inline constexpr int kMaxStreams = 16;
inline constexpr int kMaxTableBits = 14;
inline constexpr int kTileCols = 256;

struct CodeHeader {
  int32_t lowest;                               // the element with high part and raw bits 0
  uint32_t raw_bits;                            // 0..7
  uint16_t codes_of_length[kMaxTableBits + 2];  // [l]: codes of l bits; a single tuple has one code of 0 bits
};
static_assert(sizeof(CodeHeader) == 40);

// Coded units of a row or of its beginning.
constexpr int64_t units_of(int64_t cols, int tuple) {
  if (tuple == 2) return (cols + 1) / 2;
  const int64_t rest = cols % 64;
  return cols / 64 * 16 + (rest < 32 ? (rest + 1) / 2 : 16);
}
// First column of unit `unit` of a row; a tuple's other columns lie kColumnOfTuple further.
constexpr int64_t unit_column(int64_t unit, int tuple) {
  return tuple == 2 ? 2 * unit : unit / 16 * 64 + unit % 16 * 2;
}
inline constexpr int kColumnOfTuple[4] = {0, 1, 32, 33};
// Where the high part of that column stands in the tuple.
constexpr int tuple_shift(int element, int tuple) {
  return tuple == 2 ? 8 * element : 8 * (element & 1) + 4 * (element >> 1);
}

// Raw bits of a tile of `cols` columns (256, or fewer at a row's end): planes of 4, 2 and 1 bits, as many as add up to
// raw_bits, wide ones first and more significant. A plane of w bits has n = ceil(cols * w / 8) bytes; field k of byte i
// (bits w k and up) belongs to column n k + i.
constexpr int64_t plane_bytes(int64_t cols, int width) { return (cols * width + 7) / 8; }
constexpr int64_t raw_tile_bytes(int64_t cols, int raw_bits) {
  int64_t bytes = 0;
  for (int width = 4; width > 0; width /= 2)
    if (raw_bits & width) bytes += plane_bytes(cols, width);
  return bytes;
}
constexpr int64_t raw_row_bytes(int64_t cols, int raw_bits) {
  return cols / kTileCols * raw_tile_bytes(kTileCols, raw_bits) + raw_tile_bytes(cols % kTileCols, raw_bits);
}

constexpr int64_t block_record_bytes(int streams) { return 16 + 4 * int64_t{streams}; }
// Rows of a block: about `block_elements` elements, at least one row.
constexpr int64_t rows_per_block(int64_t cols, int64_t block_elements) {
  return cols == 0 || cols >= block_elements ? 1 : block_elements / cols;
}

}  // namespace single_level

}  // namespace ecmv::codecs::huffman_lut
