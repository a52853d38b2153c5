// One lane's segment, by plain loops: what the reference decoder and the scalar kernels share.
#pragma once

#include <array>
#include <cstdint>

#include "codecs/quad_huffman/format/stored.h"

namespace ecmv::codecs::quad_huffman {

// Without patches: w - lowest; of floats exponent - lowest, and RawColumns::sign.
struct SegmentColumns {
  std::array<int16_t, kMostSegmentCols> offsets;
  std::array<uint8_t, kMostSegmentCols> signs;
};

// The codes begin at `position`, which moves on, and the lane's raw words of the segment at `raw`. Calls
// after_symbol() once `position` is past a symbol.
template <bool kRotated, class F>
void decode_segment(const Stored& stored, const TileCodes& codes, int lane, int64_t& position, const uint8_t* raw,
                    SegmentColumns& columns, F after_symbol) {
  auto& [offsets, signs] = columns;
  const int each = stored.symbol_cols;
  const uint32_t mask = (1u << stored.table_bits) - 1;
  for (int i = 0; i < kSegmentSymbols; ++i) {
    uint32_t window = static_cast<uint32_t>(codes.window(position, lane));
    [[maybe_unused]] const int rotation = static_cast<int>(window & ((1u << kRotationBits) - 1));
    if constexpr (kRotated) window >>= kRotationBits;
    const int64_t entry = window & mask;
    position += stored.entry_length(entry);
    after_symbol();
    for (int k = 0; k < each; ++k)
      offsets[each * i + k] = static_cast<int16_t>(stored.entry_high(entry, kRotated ? rotated_col(k, rotation) : k));
  }
  for (int group = 0; group < stored.segment_cols() / 32; ++group) {
    const RawColumns raws = stored.raw_columns(raw, group);
    for (int i = 0; i < 32; ++i) {
      int16_t& offset = offsets[32 * group + i];
      offset = static_cast<int16_t>(stored.offset_of(offset, raws.low[i]));
      signs[32 * group + i] = raws.sign[i];
    }
  }
}

}  // namespace ecmv::codecs::quad_huffman
