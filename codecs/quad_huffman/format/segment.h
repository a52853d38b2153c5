// Decodes one lane's segment by plain loops, for the reference decoder and the scalar kernels.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "codecs/quad_huffman/format/stored.h"

namespace ecmv::codecs::quad_huffman {

// Before patches: w - lowest; floats: exponent - lowest, and Stored::sign_of.
struct SegmentColumns {
  std::array<int16_t, kMostSegmentCols> offsets;
  std::array<uint8_t, kMostSegmentCols> signs;
};

// The segment's symbols, to the high parts of its columns. `codes` has window(position, lane), as TileCodes has.
template <int kSymbolCols, bool kRotated, class Codes, class F>
void decode_symbols(const Stored& stored, Form form, const Codes& codes, int lane, int64_t& position, int16_t* highs,
                    F after_symbol) {
  const uint32_t mask = (1u << stored.table_bits) - 1, high_mask = kSymbolCols == 8 ? 3 : 0xffu >> entry_shift(form);
  const uint8_t* table = stored.table;
  std::array<int, kSymbolCols> shifts;
  for (int k = 0; k < kSymbolCols; ++k) shifts[k] = high_shift(kSymbolCols, form, k);
  int64_t at = position;
  for (int i = 0; i < kSegmentSymbols; ++i, highs += kSymbolCols) {
    uint32_t window = static_cast<uint32_t>(codes.window(at, lane));
    [[maybe_unused]] const int rotation = static_cast<int>(window & ((1u << kRotationBits) - 1));
    if constexpr (kRotated) window >>= kRotationBits;
    const uint32_t symbol = load_u32(table + 4 * (window & mask));
    at += length_of_entry(kSymbolCols, form, symbol);
    after_symbol(at);
    for (int k = 0; k < kSymbolCols; ++k)
      highs[k] = static_cast<int16_t>(symbol >> shifts[kRotated ? rotated_col(k, rotation) : k] & high_mask);
  }
  position = at;
}

// Adds the raw bits: from high parts to offsets, and the signs. The lane's raw words of the segment are at `raw`. All
// shifts are constants where the loops are unrolled and the form is known.
inline __attribute__((always_inline)) void add_raw_bits(int symbol_cols, Form form, const uint8_t* raw,
                                                        SegmentColumns& columns) {
  auto& [offsets, signs] = columns;
  for (int group = 0; group < segment_cols(symbol_cols) / 32; ++group) {
    std::array<uint32_t, kMostPlaneWords> words{};
    for (int j = 0; j < form.raw_bits; ++j) words[j] = load_u32(raw + raw_word_offset(symbol_cols, form, group, j));
    std::array<uint32_t, 8> quads;
    unpack_group(symbol_cols, form, words.data(), quads.data());
    if (form.floats)
#pragma GCC unroll 32
      for (int i = 0; i < 32; ++i) signs[32 * group + i] = sign_of_col(symbol_cols, form, words.data(), i);
#pragma GCC unroll 32
    for (int i = 0; i < 32; ++i) {
      int16_t& offset = offsets[32 * group + i];
      offset =
          static_cast<int16_t>(offset_of_parts(form, offset, static_cast<int>(quads[i / 4] >> (8 * (i % 4)) & 0xff)));
    }
  }
}

// Two columns of bf16 at a time, in 0.4 of the reference decoder's time with symbols of eight and 0.84 with four:
// whether a matrix has no exponents beyond 255, which would run into signs.
inline bool decodes_pairs(const Stored& stored) {
  return stored.form == float_form(stored.symbol_cols, false) &&
         stored.lowest + ((most_high(stored.symbol_cols, stored.form) + 1) << stored.cell_bits()) <= 256;
}
namespace pairs {

constexpr uint32_t kSigns = 0x807f807f;  // with mantissas, of two bf16; their exponents are between
inline void put(uint32_t pair, uint16_t* to) {
  to[0] = static_cast<uint16_t>(pair);
  to[1] = static_cast<uint16_t>(pair >> 16);
}

// 32 columns of four or eight symbols; `words` are the raw ones of these columns.
inline void add_raw_to_eights(const uint32_t* entries, const uint32_t* words, uint32_t least, uint16_t* to) {
  constexpr uint32_t kHighs = 0x66666666, kLows = 0x99999999, kExponents = 0x07800780;
  for (int i = 0; i < 4; ++i, to += 8) {
    const uint32_t lows = std::rotr(words[kSignMantissaBits + i / 2], i % 2 * 2);
    const uint32_t offsets = (entries[i] & kHighs) | (lows & kLows);
#pragma GCC unroll 4
    for (int pair = 0; pair < 4; ++pair) {
      const int rotation = eights_rotation(pair);
      put(((std::rotr(offsets, rotation) & kExponents) + least) |
              (std::rotr(words[2 * i + pair / 2], rotation) & kSigns),
          to + 2 * pair);
    }
  }
}
inline void add_raw_to_fours(const uint32_t* entries, const uint32_t* words, uint32_t least, uint16_t* to) {
  for (int i = 0; i < 8; ++i, to += 4) {
    const uint32_t offsets = (entries[i] & 0xfefefefe) | (words[kSignMantissaBits] >> i & 0x01010101), signs = words[i];
    const auto apart = [](uint32_t bytes) { return (bytes & 0xff) | (bytes & 0xff00) << 8; };
#pragma GCC unroll 2
    for (int pair = 0; pair < 2; ++pair) {
      const uint32_t of_signs = apart(signs >> (16 * pair));
      put(((apart(offsets >> (16 * pair)) << 7) + least) | (of_signs << 8 & 0x80008000) | (of_signs & 0x007f007f),
          to + 2 * pair);
    }
  }
}

}  // namespace pairs

// As decode_segment, where decodes_pairs(): the segment's numbers of bf16 before patches, of kTogether lanes from
// `lane` on, so that one's look-ups run beside the others' (four: 1.4x the speed of one). `raw` and to[] are the first
// lane's; the next one's numbers are to_stride further.
inline constexpr int kTogether = 4;
template <int kSymbolCols, class Codes, class F>
void decode_pairs_of(const Stored& stored, const Codes& codes, int lane, std::array<int64_t, kTogether>& positions,
                     const uint8_t* raw, uint16_t* to, int64_t to_stride, F after_symbol) {
  constexpr Form kForm = float_form(kSymbolCols, false);
  constexpr int kGroupSymbols = 32 / kSymbolCols;
  const uint32_t mask = (1u << stored.table_bits) - 1, least = static_cast<uint32_t>(stored.lowest) * 0x00800080;
  const uint8_t* table = stored.table;
  std::array<std::array<uint32_t, kSegmentSymbols>, kTogether> entries;
  std::array<int64_t, kTogether> at = positions;
  for (int symbol = 0; symbol < kSegmentSymbols; ++symbol)
#pragma GCC unroll 4
    for (int i = 0; i < kTogether; ++i) {
      const uint32_t entry = load_u32(table + 4 * (static_cast<uint32_t>(codes.window(at[i], lane + i)) & mask));
      entries[i][symbol] = entry;
      at[i] += length_of_entry(kSymbolCols, kForm, entry);
      after_symbol(at[i]);
    }
  positions = at;
  for (int i = 0; i < kTogether; ++i, raw += stored.raw_lane_bytes(), to += to_stride)
    for (int group = 0; group < kSymbolCols; ++group) {
      std::array<uint32_t, kForm.raw_bits> words;
      for (int j = 0; j < kForm.raw_bits; ++j) words[j] = load_u32(raw + raw_word_offset(kSymbolCols, kForm, group, j));
      const uint32_t* of_group = entries[i].data() + group * kGroupSymbols;
      if constexpr (kSymbolCols == 8)
        pairs::add_raw_to_eights(of_group, words.data(), least, to + 32 * group);
      else
        pairs::add_raw_to_fours(of_group, words.data(), least, to + 32 * group);
    }
}
template <class Codes, class F>
void decode_pairs(const Stored& stored, const Codes& codes, int lane, std::array<int64_t, kTogether>& positions,
                  const uint8_t* raw, uint16_t* to, int64_t to_stride, F after_symbol) {
  if (stored.symbol_cols == 8)
    decode_pairs_of<8>(stored, codes, lane, positions, raw, to, to_stride, after_symbol);
  else
    decode_pairs_of<4>(stored, codes, lane, positions, raw, to, to_stride, after_symbol);
}

// The codes begin at `position`, which moves on; the lane's raw words of the segment are at `raw`. Calls
// after_symbol(position) past every symbol.
template <class Codes, class F>
void decode_segment(const Stored& stored, const Codes& codes, int lane, int64_t& position, const uint8_t* raw,
                    SegmentColumns& columns, F after_symbol) {
  const int each = stored.symbol_cols;
  const Form form = stored.form;
  int16_t* highs = columns.offsets.data();
  // What the compiler knows it computes once: a bf16 takes a third of the time.
  constexpr Form kFours = float_form(4, false), kEights = float_form(8, false);
  if (each == 4 && form == kFours) {
    decode_symbols<4, false>(stored, kFours, codes, lane, position, highs, after_symbol);
    return add_raw_bits(4, kFours, raw, columns);
  }
  if (each == 8 && form == kEights) {
    decode_symbols<8, false>(stored, kEights, codes, lane, position, highs, after_symbol);
    return add_raw_bits(8, kEights, raw, columns);
  }
  if (stored.rotated)
    decode_symbols<8, true>(stored, form, codes, lane, position, highs, after_symbol);
  else if (each == 8)
    decode_symbols<8, false>(stored, form, codes, lane, position, highs, after_symbol);
  else
    decode_symbols<4, false>(stored, form, codes, lane, position, highs, after_symbol);
  add_raw_bits(each, form, raw, columns);
}

}  // namespace ecmv::codecs::quad_huffman
