// Decodes one lane's segment by plain loops, for the reference decoder and the scalar kernels.
#pragma once

#include <array>
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
