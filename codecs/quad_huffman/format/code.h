// Symbols, table entries and raw bits: which combinations exist, and where an entry has which bits. K columns a symbol,
// B raw bits, T table bits; h is a column's high part (FORMAT.md).
#pragma once

#include <cstdint>

#include "codecs/quad_huffman/format/header.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr int kLeastSymbolCols = 4, kMostSymbolCols = 8;
inline constexpr int kLeastTableBits = 8, kMostTableBits = 13;
inline constexpr int kMostRawBits = 7;                         // int8
inline constexpr int kMostPlaneWords = kSignMantissaBits + 2;  // raw words of 32 columns

// Forms as kernels have them, the stored int.
inline constexpr int raw_bits_of(Form form) { return form.raw_bits; }
inline constexpr bool is_folded(Form form) { return form.folded; }
inline constexpr bool is_float(Form form) { return form.floats; }
inline constexpr bool is_f8(Form form) { return form.f8; }

inline constexpr Form float_form(int symbol_cols, bool f8) {
  const int of_exponent = symbol_cols == 8 ? 2 : 1;
  return f8 ? kF8 + kF8SignMantissaBits + of_exponent : kSignMantissaBits + of_exponent;
}
inline constexpr int f8_form(int symbol_cols) { return float_form(symbol_cols, true); }
inline constexpr int float_raw_bits(int symbol_cols) { return float_form(symbol_cols, false); }
inline constexpr int sign_mantissa_bits(Form form) {
  return !form.floats ? 0 : form.f8 ? kF8SignMantissaBits : kSignMantissaBits;
}
// log2 of the width of a cell, in elements or exponents.
inline constexpr int cell_bits(Form form) { return form.raw_bits - sign_mantissa_bits(form) - (form.folded ? 1 : 0); }
inline constexpr int most_exponent(Form form) { return form.f8 ? 15 : 255; }
inline constexpr int most_substitute(Form form) { return !form.f8 ? 255 : form == f8_form(8) ? 18 : 16; }
// Says whether kernels multiply numbers so small that tokens of bf16 are scaled up for them.
inline constexpr bool scales_tokens(int symbol_cols, Form form) {
  return !form.floats || (form.f8 && symbol_cols != kMostSymbolCols);
}
// Eight columns are for small tables. Beyond these bounds they win nothing, and every combination is one more kernel.
inline constexpr int least_raw_bits(int symbol_cols, bool folded) { return !folded ? 0 : symbol_cols == 8 ? 2 : 1; }
inline constexpr int most_raw_bits(int symbol_cols, bool folded) {
  return folded ? 5 : symbol_cols == 8 ? 2 : kMostRawBits;
}

// Widths of the planes of B raw bits (floats: the exponents' part), lowest bits first; 0: none.
struct Planes {
  int first, second;
};
inline constexpr Planes planes_of(Form form) {
  const int bits = form.raw_bits - sign_mantissa_bits(form);
  if (form.folded && bits == 3) return {2, 1};  // magnitude, sign
  return bits <= 4 ? Planes{bits, 0} : Planes{4, bits - 4};
}

inline constexpr int high_bits(int symbol_cols) { return 16 / symbol_cols; }
inline constexpr int most_high(int symbol_cols, Form form) {
  const int of_symbol = (1 << high_bits(symbol_cols)) - 1, of_byte = 127 >> cell_bits(form);
  return form.folded && of_byte < of_symbol ? of_byte : of_symbol;
}

// Eight cells of two bits and a length are one word. Folded cells share a nibble between two quads, because their signs
// take whole bytes. Other cells have a nibble each, where raw bits join them: both quads are masked and multiplied as
// they are, and the second one's products come out 16 times too large.
inline constexpr bool has_packed_entries(int symbol_cols, Form form) { return symbol_cols == 8 && form.folded; }
inline constexpr bool has_nibble_entries(int symbol_cols, Form form) { return symbol_cols == 8 && !form.folded; }
inline constexpr bool has_exponent_eights(int symbol_cols, Form form) { return symbol_cols == 8 && form.floats; }

// A length that is a sum of the entry's bytes costs one operation; a length bit in each byte costs two.
inline constexpr bool has_summed_lengths(int symbol_cols, Form form) {
  return has_nibble_entries(symbol_cols, form) || (symbol_cols == 4 && form.folded && cell_bits(form) >= 2);
}
inline constexpr uint32_t length_weights(int symbol_cols) { return symbol_cols == 8 ? 0x08040201 : 0x00100401; }
inline constexpr uint32_t kSummedLengthMask = 63;
// Rotated symbols with a spare bit in each nibble: the sum is the length modulo 1024, as many bits as a ring has.
inline constexpr uint32_t kExactLengthMask = 1023;
inline constexpr bool has_exact_lengths(bool rotated, Form form) { return rotated && cell_bits(form) <= 1; }
inline constexpr uint32_t sum_of_lengths(int symbol_cols, uint32_t entry) {
  uint32_t sum = 0;
  for (int byte = 0; byte < 32; byte += 8) sum += (entry >> byte & 255) * (length_weights(symbol_cols) >> byte & 255);
  return sum;
}
// The bits of an entry that make such a sum any number, modulo 64 or, where `exact`, 1024.
inline constexpr uint32_t summed_length_bits(int symbol_cols, uint32_t number, bool exact) {
  uint32_t bits = 0;
  if (symbol_cols == 8) {
    for (int bit = 0; bit < (exact ? 8 : 6); ++bit) bits |= (number >> bit & 1) << (8 * (bit % 4) + (bit < 4 ? 0 : 4));
    if (exact) bits |= (number >> 8 & 1) << 15 | (number >> 9 & 1) << 23;
  } else {
    for (int byte = 0; byte < 3; ++byte) bits |= (number >> (2 * byte) & 3) << (8 * byte);
  }
  return bits;
}
// The shift of h in a byte of an entry. Where lengths are in the lowest bits, matrices without raw bits below h hold
// twice the elements.
inline constexpr int entry_shift(Form form) { return cell_bits(form) == 0 && !form.floats ? 1 : cell_bits(form); }

// Symbols of eight exponents: products put a multiple of 16 in place of the least exponent, so that four bits join it,
// and sums are too small by the difference, a power of two. Where exponents of 1 to 15 or of 255, which a bf16 would
// not hold so, have patches, `lowest` itself is such a multiple, and there is no difference.
inline constexpr int kLeastEightsLowest = 16;  // bf16
inline constexpr int most_eights_lowest(bool f8) { return f8 ? 3 : 224; }
inline constexpr int eights_lowest(Form form, int lowest) { return lowest + (form.f8 ? 120 : 0); }
inline constexpr int eights_base(Form form, int lowest) { return eights_lowest(form, lowest) & ~15; }
inline constexpr bool has_eights_patch(Form form, int lowest, int exponent) {
  return form.f8 || lowest % 16 == 0 || exponent == 0 || (exponent > 15 && exponent < 255);
}
// Words are rotated right by this many bits for columns 2 pair and 2 pair + 1. The four bits of column k's exponent
// less `lowest` then begin at eights_exponent_shift(k); bit 0 follows bit 31.
inline constexpr int eights_rotation(int pair) { return pair == 0 ? 0 : pair == 1 ? 8 : pair == 2 ? 4 : -4; }
inline constexpr int eights_exponent_shift(int k) { return (7 + eights_rotation(k / 2) + 16 * (k % 2)) & 31; }

// The place of column k's h in a table entry.
inline constexpr int high_shift(int symbol_cols, Form form, int k) {
  if (symbol_cols < 8) return 8 * k + entry_shift(form);
  if (form.floats) return (eights_exponent_shift(k) + 2) & 31;
  return 8 * (k % 4) + (form.folded ? (k < 4 ? 2 : 0) : (k < 4 ? 0 : 4) + entry_shift(form));
}

// Rotated symbols: the first bits of a code say by how many nibbles an entry is rotated right. Nibbles are in the order
// of columns 0, 4, 1, 5, 2, 6, 3, 7; rotated_col says which column of the entry comes to column k.
inline constexpr int kRotationBits = 3, kMostRotatedTableBits = 12;
inline constexpr int rotated_col(int k, int rotation) {
  const int nibble = (2 * (k % 4) + k / 4 + rotation) % 8;
  return nibble / 2 + 4 * (nibble % 2);
}

}  // namespace ecmv::codecs::quad_huffman
