// Stored bytes of quad_huffman, version 10: made so that a GPU lane, which owns a row, decodes several columns by one
// table look-up.
//
// An element is w = lowest + h * 2^B + r: r, the raw bits, is stored plainly; the high parts h of K neighbouring
// columns are one symbol of one length-limited Huffman code for the whole matrix, K = 2, 4 (a quad) or 8. A symbol is a
// number of 16 bits, 16 / K for each h, so h below 2^(16 / K) can have codes. A value without a code is stored as the
// nearest one that has one (its substitute), and a patch adds the difference.
//
//   header     6 bytes: the form (B, and 16 where cells are folded, 64 of f8), T, lowest (int16, little-endian), 64 and the
//              segments of a tile (and 128 in the layout of fragments; before version 6 log2 of a tile's columns, 8 to 11, in
//              place of 64 and segments), log2 of K (and 128 in the layout of strips, and 64 where symbols are rotated); of bf16 and f8 16 more since version 7, and a
//              seventh byte, see below
//   table      2^T entries of one uint32. Entry i is for streams whose next bits, first bit lowest, are i. C is log2 of
//              the width of a cell: B, of folded cells B - 1.
//              K = 2: bytes 0 and 1 hold h of the columns shifted left by C, the upper half the length of the code
//              (1..T)
//              K = 4: byte k holds h of column k shifted left by max(C, 1); bit 0 of byte k is bit k of the length
//              K = 4, folded, C >= 2: byte k holds h of column k shifted left by C, and bits 0 and 1 of bytes 0 to 2 are
//              such that byte 0 + 4 * byte 1 + 16 * byte 2, modulo 64, is the length
//              K = 8, folded: bits 2 and 3 of byte k hold h of column k, bits 0 and 1 that of column 4 + k, bits 4 to 7
//              of byte 3 the length, those of other bytes 0
//              K = 8, not folded: the low nibble of byte k holds h of column k shifted left by max(C, 1), the high one
//              that of column 4 + k; bits 0 and 4 of the bytes are such that byte 0 + 2 * byte 1 + 4 * byte 2 +
//              8 * byte 3, modulo 64, is the length; other bits are 0. Before version 4 these entries were two words,
//              and B could be more than 2
//   tiles      4 uint32 a tile and 4 more: where its codes begin, in units of 16 bytes; its first patch; how many of
//              its patches are for the first kPatchCols columns; a quarter of its full lines, and from bit 16 on its
//              partial lines. The last 4: the ends, 0, 0
//   schedule   a byte a segment: blocks of 4 lines to have before it (of a narrow last tile the rest is 0)
//   codes      tile by tile: a mask a partial line, the full lines, the partial lines; masks and partial lines end in
//              up to 3 words of 0
//   raw        B / 8 bytes a column
//   patches    uint16: row in the tile, from bit 5 on the column in its half of the tile, bit 15: 0 adds one to h, 1
//              takes one; of a tile in the order of columns, those of a column in the order of rows
//
// A tile is 32 rows by `tile_cols` columns; tiles of the same rows follow each other. Rows beyond the last and columns
// up to the next multiple of a segment are filled with whatever codes shortest. A lane's codes are one string of bits,
// first bit lowest; its word k is in line k. A full line is 32 words, a lane each. A partial line has only words of
// lanes whose strings reach it, in the order of lanes; bit l of its mask says whether lane l's does.
//
// A segment is 32 symbols: 32 K columns. A decoder keeps the last kRingLines lines, and begins to fetch those of a
// segment kAhead segments before. With reach(s) = min(4 * (schedule[0] + ... + schedule[s]), lines of the tile): before
// segment s every lane's position becomes max(position, 32 * (reach(min(s + kAhead, last)) - kRingLines)), and all code
// bits of segment s, and the line after the one with its last bit, if there is one, are before reach(s). So lanes may
// drift apart, and no data makes the ring overflow.
//
// Raw bits of 32 columns (quads of columns q = 0..7) are B words; a segment's words, one group of 32 columns after the
// other, are stored in units of 4, 2 or 1 words, the most that divide those of a batch, which is 64 columns
// (K = 2: 32; K = 8, B <= 3: 128): unit 0 of each lane, then unit 1 of each. Byte k of a word is for column k of its
// quads. The words are planes of 4, 3, 2 and 1 bits, the widest first and for the lowest bits (kPlanes); fields of a
// plane, from the low end of each byte:
//   4 bits: word q / 2, field q % 2    2 bits: word q / 4, field q % 4    1 bit: word 0, field q
//   3 bits: word q / 2, field q % 2 for q < 6; the last two bits of bytes of words 0, 1, 2 together are the fields of
//   quads 6, 7
// K = 8, not folded: quad q = 2 i + j of eight columns i has its bits in nibble j of the bytes, from bit i * B % 4 on,
// 1 bit: of word 0, 2 bits: of word i / 2.
//
// Folded cells, K = 4 and 8, for elements around a centre: with v = w - lowest and s = 1 where v is negative, the
// magnitude m = v ^ -s is h * 2^C + r, C = B - 1, and the B raw bits are s above r. So cells at the same distance on both
// sides of `lowest` share a code, and are half as wide for as many codes. h is at most 127 >> C. A patch adds 2^C to the
// element or takes it. Planes of raw bits are those of B, but for B = 3: two of r and one of s.
//
// bf16 elements: what is coded is the exponent, e = lowest + h * 2^(B - 8) + r, lowest 0..255. The first eight of the B
// raw bits (8 for K = 2, 9 for K = 4) are sign and mantissa, a byte with the sign on top: word q is quad q's. The
// ninth, r, is a plane of one bit. K = 2 has h of 8 bits and no r, K = 4 cells of two exponents. A patch is a uint32
// and replaces an exponent, once an element: row, from bit 5 on the column in the tile, from bit 16 on the exponent,
// from bit 24 on the one that stands in for it; none of a tile counts as one of its left half. Behind the last patch each has a
// byte, sign and mantissa of its element, so that who multiplies has them without a look at the raw bits (since version 7; before
// it there were none). The header's seventh byte is the largest exponent that stands in for another one, 0 if there are no patches.
//
// f8 elements (e4m3), s eeee mmm: the same with K = 4, exponents of 0..15 and B = 5, four for sign and mantissa and one plane
// as of bf16. Signs and mantissas of eight columns c = 2 p + i are a word: nibble (1 + p + 4 i) % 8 has the mantissa of
// column c in its lower three bits, nibble (3 + p + 4 i) % 8 its sign as the highest bit. So the word rotated right by 4 p
// bits has sign and mantissa of column 2 p where a bf16 in the word's lower half has its sign and its highest mantissa bits,
// and those of the next column in the upper half. What stands in for an exponent may be 16. A patch's byte has the sign as its
// highest bit and the mantissa as its lowest ones.
//
// Both in symbols of eight (since version 8): cells of four exponents, h of two bits, B = 10 or, of f8, 6, of which the highest two are
// the exponent's. What makes two neighbouring columns 2 p and 2 p + 1 is at the same distance of n = 0, 8, 4, -4 bits for p = 0 to 3
// from its place in a word of two numbers of bf16, the first in the lower half, which rotates to the right by n bits then:
//   table      bits 7..10 of a half are for e - lowest, four bits, of which the entry has the upper two, h; bit 0 and bit 4 of the bytes
//              are such that byte 0 + 2 * byte 1 + 4 * byte 2 + 8 * byte 3, modulo 64, is the length; other bits are 0
//   raw        words 0 to 7, of f8 0 to 3: sign in bit 15 and mantissa in bits 0..6, of f8 4..6, of a half; a word has two pairs, of
//              f8 four. Then two words with the lower two bits of e - lowest in bits 7 and 8 of a half: word j of eight columns 2 j,
//              and two bits further those of eight columns 2 j + 1
// An exponent of 0 always has a patch, where it is coded, too. `lowest` is 0 to 3 of f8, and 16 to 224 of bf16, a multiple of 16
// where a patch has an exponent of 1 to 15 or of 255. What stands in for an exponent of f8 may be 18.
//
// In the layout of fragments all this is of another matrix, with twice the rows and half the columns: column
// 8 j + c of its row 32 i + l is column 16 j + 4 (l % 4) + c % 4 of row 16 i + l / 4 + 8 (c / 4) of the matrix, of bf16 and f8 since
// version 7 column 16 j + 2 (l % 4) + c % 2 + 8 (c / 2 % 2) of that row (fragments.h). Rows and columns up to the next multiple
// of 16 repeat the last ones, with 1 in place of bf16 exponents of 255 in columns.
//
// In the layout of strips (int8, since version 10) it is of a third one, of 32 rows for each 1024 columns and 32 columns for each row of
// the matrix: column 32 r + c of its row l is column 32 l + c of row r of the matrix (strips.h). Columns up to the next multiple of 1024 repeat
// the last one. The place of an element in a tile is 1024 times its row of the matrix in the tile, r, and its column of the strip's 1024, 32 l + c. Patches are
// numbers of 12 bits, eight in a packet of 12 bytes, the first one's lowest, in the order of their places: bit 0 says whether one is taken from h, the
// other eleven how far the place is from the one before, at first 0. 2047 is no patch, but moves on; with such ones the last packet of a tile is filled.
// The index counts packets, and 0 in place of the left half's patches. (Version 9 had strips with patches of 16 bits, and 32 in the header.)
//
// Rotated symbols are those of strips with K = 8 and contiguous cells. A code is three bits, n, the lowest first, and then bits that the table is indexed
// by; the length in the entry is of both. The symbol is the entry rotated right by n nibbles, so that h of column k is what the entry has of
// column rotated_col(k, n). T is 12 at most. Where nibbles have a bit to spare (B < 2), bits 15 and 23 belong to the length, too, and the sum is the length
// modulo 1024, for kernels that add up lengths without a mask. The codes of a lane's segment take at most 416 bits.
//
// Where all this would take more bytes than the elements, the header is one byte, 32, `raw` holds the elements as they
// are, row-major, and the other sections are empty.
#pragma once

#include <cstdint>

namespace ecmv::codecs::quad_huffman {

// Section numbers.
inline constexpr int kHeader = 0, kTable = 1, kTiles = 2, kSchedule = 3, kCodes = 4, kRaw = 5, kPatches = 6,
                     kSections = 7;

inline constexpr int kHeaderBytes = 6, kFloatHeaderBytes = 7, kPlainHeaderBytes = 1, kTileBytes = 16;
inline constexpr int kSince7 = 16;  // of the header's sixth byte, of bf16 and f8
inline constexpr int kLanes = 32;   // rows of a tile
inline constexpr int kSegmentSymbols = 32;
inline constexpr int kLeastSymbolCols = 2, kMostSymbolCols = 8;
inline constexpr int kMostSegmentCols = kSegmentSymbols * kMostSymbolCols;
inline constexpr int kLeastTileCols = 256, kMostTileCols = 2048;
inline constexpr int kPatchCols = 1024;  // what a patch has bits for
inline constexpr int kLineWords = kLanes, kLineBytes = 4 * kLineWords, kUnitBytes = 16;
inline constexpr int kBlockLinesBits = 2, kBlockLines = 1 << kBlockLinesBits;
inline constexpr int kMostPartialLines = 32;
inline constexpr int kRingLines = 32, kAhead = 1;
inline constexpr int kMostRawBits = 7;                         // of int8
inline constexpr int kSignMantissaBits = 8;                    // of bf16
inline constexpr int kF8SignMantissaBits = 4;                  // of f8
inline constexpr int kMostPlaneWords = kSignMantissaBits + 2;  // raw words of 32 columns

// A form is the header's first byte: raw bits of an element, and kFolded where cells are folded.
inline constexpr int kFolded = 16;
// Of f8, whose form is this and its raw bits.
inline constexpr int kF8 = 64, kLeastF8SymbolCols = 4;
inline constexpr int f8_form(int symbol_cols) { return kF8 + kF8SignMantissaBits + (symbol_cols == 8 ? 2 : 1); }
// The header of a matrix that is stored as it is, and all of it; plain.h.
inline constexpr int kPlain = 32;
// Of the header's byte with the segments of a tile.
inline constexpr int kFragments = 128, kTileSegments = 64;
// Of the header's sixth byte, of int8.
inline constexpr int kStripsOf9 = 32, kRotated = 64, kStrips = 128;
inline constexpr int raw_bits_of(int form) { return form & (kFolded - 1); }
inline constexpr bool is_folded(int form) { return (form & kFolded) != 0; }
inline constexpr bool is_float(int form) { return !is_folded(form) && form >= kSignMantissaBits; }
inline constexpr bool is_f8(int form) { return (form & kF8) != 0; }
// Of a float: raw bits that are none of its exponent.
inline constexpr int sign_mantissa_bits(int form) { return is_f8(form) ? kF8SignMantissaBits : kSignMantissaBits; }
// log2 of the width of a cell, of elements or of exponents.
inline constexpr int cell_bits(int form) {
  return is_float(form) ? raw_bits_of(form) - sign_mantissa_bits(form) : is_folded(form) ? raw_bits_of(form) - 1 : form;
}
inline constexpr int most_exponent(int form) { return is_f8(form) ? 15 : 255; }
inline constexpr int most_stand_in(int form) { return !is_f8(form) ? 255 : form == f8_form(8) ? 18 : 16; }
inline constexpr int float_raw_bits(int symbol_cols) {
  return kSignMantissaBits + (symbol_cols == 8 ? 2 : symbol_cols == 4 ? 1 : 0);
}
inline constexpr int float_form(int symbol_cols, bool f8) {
  return f8 ? f8_form(symbol_cols) : float_raw_bits(symbol_cols);
}
// Symbols of eight exponents, which have a layout of their own.
inline constexpr bool has_exponent_eights(int symbol_cols, int form) { return symbol_cols == 8 && is_float(form); }
// Of these the least exponent that is coded, at most.
inline constexpr int most_eights_lowest(bool f8) { return f8 ? 3 : 224; }
// Whether kernels multiply numbers that are so small that tokens of bf16 are scaled up for them.
inline constexpr bool scales_tokens(int symbol_cols, int form) {
  return !is_float(form) || (is_f8(form) && !has_exponent_eights(symbol_cols, form));
}
inline constexpr int kPatchWordBytes = 4;  // of a patch of floats, without its sign
inline constexpr int patch_bytes(int form, bool signs) {
  return is_float(form) ? kPatchWordBytes + (signs ? 1 : 0) : 2;
}
inline constexpr int kLeastTableBits = 8, kMostTableBits = 13;
// Two columns are for narrow cells, eight for small tables: beyond these neither is the best at anything, and every
// combination is a kernel more.
inline constexpr int least_raw_bits(int symbol_cols, bool folded) { return !folded ? 0 : symbol_cols == 8 ? 2 : 1; }
inline constexpr int most_raw_bits(int symbol_cols, bool folded) {
  if (folded) return symbol_cols == 2 ? 0 : 5;
  return symbol_cols == 2 ? 4 : symbol_cols == 8 ? 2 : kMostRawBits;
}
inline constexpr bool has_folded_cells(int symbol_cols) { return symbol_cols >= 4; }

// A lane that is moved forward must not by that become the one that decides how much is fetched.
static_assert((kAhead + 1) * kSegmentSymbols * kMostTableBits / 32 + kBlockLines + 2 <= kRingLines);

// Widths of the planes of B raw bits (of bf16 those of the exponents), lowest bits first; 0: none. Eight columns whose
// cells are not folded have none, but nibbles of words (raw_planes.h).
struct Planes {
  int first, second;
};
inline constexpr Planes planes_of(int raw_bits, bool folded) {
  constexpr Planes kPlanes[kMostRawBits + 1] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {4, 1}, {4, 2}, {4, 3}};
  return folded && raw_bits == 3 ? Planes{2, 1} : kPlanes[raw_bits];
}

// Bits of one high part, by the columns of a symbol.
inline constexpr int high_bits(int symbol_cols) { return 16 / symbol_cols; }
// Highest high part.
inline constexpr int most_high(int symbol_cols, int form) {
  const int of_symbol = (1 << high_bits(symbol_cols)) - 1, of_byte = 127 >> cell_bits(form);
  return is_folded(form) && of_byte < of_symbol ? of_byte : of_symbol;
}
// Eight cells of two bits and a length are one word: of folded cells those of two quads in a nibble, for the signs take
// whole bytes; of others a cell a nibble, which raw bits join there, so that both quads are masked and multiplied as they
// are, and the second one's products are 16 times what they should be.
inline constexpr bool has_packed_entries(int symbol_cols, int form) { return symbol_cols == 8 && is_folded(form); }
inline constexpr bool has_nibble_entries(int symbol_cols, int form) { return symbol_cols == 8 && !is_folded(form); }
// A length that is a sum of the entry's bytes costs one operation; a bit of it in each byte costs two.
inline constexpr bool has_summed_lengths(int symbol_cols, int form) {
  return has_nibble_entries(symbol_cols, form) || (symbol_cols == 4 && is_folded(form) && cell_bits(form) >= 2);
}
inline constexpr uint32_t length_weights(int symbol_cols) { return symbol_cols == 8 ? 0x08040201 : 0x00100401; }
inline constexpr uint32_t kSummedLengthMask = 63;
// Of rotated symbols the sum is the length modulo 1024 where nibbles have a fourth bit for that: as many bits as a ring has.
inline constexpr uint32_t kExactLengthMask = 1023;
inline constexpr bool has_exact_lengths(bool rotated, int form) { return rotated && cell_bits(form) <= 1; }
inline constexpr uint32_t sum_of_lengths(int symbol_cols, uint32_t entry) {
  uint32_t sum = 0;
  for (int byte = 0; byte < 32; byte += 8) sum += (entry >> byte & 255) * (length_weights(symbol_cols) >> byte & 255);
  return sum;
}
inline constexpr uint32_t length_of_sum(int symbol_cols, uint32_t entry) {
  return sum_of_lengths(symbol_cols, entry) & kSummedLengthMask;
}
// The bits of an entry that make such a sum any number, modulo 64 or, where `exact`, 1024.
inline constexpr uint32_t summed_length_bits(int symbol_cols, uint32_t number, bool exact = false) {
  uint32_t bits = 0;
  if (symbol_cols == 8) {
    for (int bit = 0; bit < (exact ? 8 : 6); ++bit) bits |= (number >> bit & 1) << (8 * (bit % 4) + (bit < 4 ? 0 : 4));
    if (exact) bits |= (number >> 8 & 1) << 15 | (number >> 9 & 1) << 23;
  } else {
    for (int byte = 0; byte < 3; ++byte) bits |= (number >> (2 * byte) & 3) << (8 * byte);
  }
  return bits;
}
// Bits by which h is shifted inside a table entry that is not packed. Where lengths are in the bytes' lowest bits,
// matrices without raw bits below h have twice the elements there.
inline constexpr int entry_shift(int symbol_cols, int form) {
  return cell_bits(form) == 0 && !is_float(form) && symbol_cols > 2 ? 1 : cell_bits(form);
}

// Of symbols of eight exponents: the least one that is coded as that of a bf16, and what products put in its place: a multiple of
// 16, so that four bits join it. What they sum up is too small by a power of two, the difference. Where exponents of 1 to 15 or of
// 255 have patches, which a bf16 would not hold so, `lowest` itself is such a multiple, and there is no difference.
inline constexpr int kLeastEightsLowest = 16;  // of bf16
inline constexpr int eights_lowest(int form, int lowest) { return lowest + (is_f8(form) ? 120 : 0); }
inline constexpr int eights_base(int form, int lowest) { return eights_lowest(form, lowest) & ~15; }
inline constexpr bool has_eights_patch(int form, int lowest, int exponent) {
  return is_f8(form) || lowest % 16 == 0 || exponent == 0 || (exponent > 15 && exponent < 255);
}
// Where the exponent less `lowest` of column k, four bits, begins in a word, of which bit 0 follows on bit 31; by how many bits
// the words have to be rotated right for the pair of columns 2 pair and 2 pair + 1.
inline constexpr int eights_rotation(int pair) { return pair == 0 ? 0 : pair == 1 ? 8 : pair == 2 ? 4 : -4; }
inline constexpr int eights_exponent_shift(int k) { return (7 + eights_rotation(k / 2) + 16 * (k % 2)) & 31; }
// Where h of column k begins in an entry of 8 columns.
inline constexpr int eights_shift(int form, int k) {
  if (is_float(form)) return (eights_exponent_shift(k) + 2) & 31;
  return 8 * (k % 4) + (is_folded(form) ? (k < 4 ? 2 : 0) : (k < 4 ? 0 : 4) + entry_shift(8, form));
}

// Of rotated symbols: bits before the table's, which say by how many nibbles an entry is to be rotated right. Cells are in nibbles in
// the order of columns 0, 4, 1, 5, 2, 6, 3, 7; which column of the entry comes to column k.
inline constexpr int kRotationBits = 3;
inline constexpr int rotated_col(int k, int rotation) {
  const int nibble = (2 * (k % 4) + k / 4 + rotation) % 8;
  return nibble / 2 + 4 * (nibble % 2);
}
// What tables of rotated symbols are indexed by at most, and code bits that lanes' segments of them have at most.
inline constexpr int kMostRotatedTableBits = 12, kMostSegmentBits = kSegmentSymbols * kMostTableBits;

inline constexpr int segment_cols(int symbol_cols) { return kSegmentSymbols * symbol_cols; }
// Columns of a tile by the header's byte.
inline constexpr int stored_tile_cols(int byte, int symbol_cols) {
  if ((byte & kTileSegments) != 0) return (byte & (kTileSegments - 1)) * segment_cols(symbol_cols);
  return 1 << (byte & 15);
}
inline constexpr int64_t row_groups(int64_t rows) { return (rows + kLanes - 1) / kLanes; }
inline constexpr int64_t column_tiles(int64_t cols, int tile_cols) { return (cols + tile_cols - 1) / tile_cols; }
// Segments of a whole row; all tiles of it but the last have tile_cols / segment_cols.
inline constexpr int64_t row_segments(int64_t cols, int symbol_cols) {
  return (cols + segment_cols(symbol_cols) - 1) / segment_cols(symbol_cols);
}
inline constexpr int64_t raw_bytes_of_segment(int symbol_cols, int form) {
  return int64_t{segment_cols(symbol_cols)} / 8 * raw_bits_of(form) * kLanes;
}
// Raw bits that a decoder loads at once: columns and words of a batch, words of a unit; where word j of the lane's
// columns [32 * group, 32 * group + 32) of a segment is; lanes are a unit apart.
// (Packed entries, B = 3, T = 12, H200, d = 16384: 5.53 to 5.60 TMAC/s with 64 columns, 5.76 with 128.)
inline constexpr int batch_cols(int symbol_cols, int form) {
  if (symbol_cols == 2) return 32;
  return symbol_cols == 8 && raw_bits_of(form) <= 3 ? 128 : 64;
}
inline constexpr int batch_words(int symbol_cols, int form) {
  return batch_cols(symbol_cols, form) / 32 * raw_bits_of(form);
}
inline constexpr int raw_unit_words(int symbol_cols, int form) {
  const int words = batch_words(symbol_cols, form);
  return words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1;
}
inline constexpr int raw_word_offset(int symbol_cols, int form, int group, int j) {
  const int word = group * raw_bits_of(form) + j, unit = raw_unit_words(symbol_cols, form);
  return word / unit * unit * kLineBytes + word % unit * 4;
}

// Columns of a tile for a matrix of that shape where the setting is 0: so wide that there are still some 3500 tiles, 27 for
// each of 132 multiprocessors; every lane of a tile ends in a word that is half empty, so wide ones are smaller. (H200, bf16,
// us for 14336 x 4096 and 4096 x 14336: 3584 tiles of 512 columns 30.2 and 29.1, 7168 of 256 36.1 and 32.3.)
inline constexpr int default_tile_cols(int64_t rows, int64_t cols) {
  int tile_cols = kMostTileCols;
  while (tile_cols > kMostSegmentCols && row_groups(rows) * column_tiles(cols, tile_cols) < 3500) tile_cols /= 2;
  return tile_cols;
}

}  // namespace ecmv::codecs::quad_huffman
