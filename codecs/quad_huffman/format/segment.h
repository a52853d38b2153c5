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

// The segment's symbols, to the high parts of its columns.
template <int kSymbolCols, bool kRotated, class F>
void decode_symbols(const Stored& stored, const TileCodes& codes, int lane, int64_t& position, int16_t* highs,
                    F after_symbol) {
  const uint32_t mask = (1u << stored.table_bits) - 1,
                 high_mask = kSymbolCols == 8 ? 3 : 0xffu >> entry_shift(stored.form);
  std::array<int, kSymbolCols> shifts;
  for (int k = 0; k < kSymbolCols; ++k) shifts[k] = high_shift(kSymbolCols, stored.form, k);
  for (int i = 0; i < kSegmentSymbols; ++i, highs += kSymbolCols) {
    uint32_t window = static_cast<uint32_t>(codes.window(position, lane));
    [[maybe_unused]] const int rotation = static_cast<int>(window & ((1u << kRotationBits) - 1));
    if constexpr (kRotated) window >>= kRotationBits;
    const int64_t entry = window & mask;
    position += stored.entry_length(entry);
    after_symbol();
    const uint32_t symbol = stored.entry(entry);
    for (int k = 0; k < kSymbolCols; ++k)
      highs[k] = static_cast<int16_t>(symbol >> shifts[kRotated ? rotated_col(k, rotation) : k] & high_mask);
  }
}

// The codes begin at `position`, which moves on; the lane's raw words of the segment are at `raw`. Calls after_symbol()
// once `position` is past a symbol.
template <class F>
void decode_segment(const Stored& stored, const TileCodes& codes, int lane, int64_t& position, const uint8_t* raw,
                    SegmentColumns& columns, F after_symbol) {
  auto& [offsets, signs] = columns;
  const int each = stored.symbol_cols;
  if (stored.rotated)
    decode_symbols<8, true>(stored, codes, lane, position, offsets.data(), after_symbol);
  else if (each == 8)
    decode_symbols<8, false>(stored, codes, lane, position, offsets.data(), after_symbol);
  else
    decode_symbols<4, false>(stored, codes, lane, position, offsets.data(), after_symbol);
  for (int group = 0; group < stored.segment_cols() / 32; ++group) {
    std::array<uint32_t, kMostPlaneWords> words{};
    for (int j = 0; j < stored.form.raw_bits; ++j)
      words[j] = load_u32(raw + raw_word_offset(each, stored.form, group, j));
    std::array<uint32_t, 8> quads;
    stored.unpack(words.data(), quads.data());
    if (stored.form.floats)
      for (int i = 0; i < 32; ++i) signs[32 * group + i] = stored.sign_of(words.data(), i);
    for (int i = 0; i < 32; ++i) {
      int16_t& offset = offsets[32 * group + i];
      offset = static_cast<int16_t>(stored.offset_of(offset, static_cast<int>(quads[i / 4] >> (8 * (i % 4)) & 0xff)));
    }
  }
}

}  // namespace ecmv::codecs::quad_huffman
