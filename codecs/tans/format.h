// The stored bytes of tans. Blocks of whole rows are independent; the elements of a block, row after row, are one
// sequence of symbols (elements, or pairs of neighbouring elements), and symbol i belongs to lane i mod lanes. The last
// step is filled up with the most frequent symbol.
//
//   alphabet       table    single: n values (u8, ascending as int8), then n frequencies - 1 (u16).
//                           pairs: u16 frequency of the escape (0: none); n pairs (u16: first element in the low byte,
//                           ascending), then n frequencies - 1 (u16). All frequencies add up to 2^table_bits.
//   block_offsets  index    blocks + 1 byte offsets (u64) into payload; the last is the end of the last block
//   payload        payload  per block: lanes states (u16, 0 .. 2^table_bits - 1), then bits, low bits of a byte first,
//                           in the order in which decoding takes them: a symbol's renormalisation bits, then, for an
//                           escape, 16 bits of the pair itself. Blocks begin at whole bytes; after the last block
//                           kPayloadPadding zero bytes, so that kernels may load whole words.
//
// Everything is little-endian. A matrix without elements has three empty sections.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::tans {

enum SectionNumber { kAlphabet, kBlockOffsets, kPayload };
inline constexpr int64_t kPayloadPadding = 64;
inline constexpr int kMaxLanes = 64;
inline constexpr int kMaxTableBits = 12;
inline constexpr int kEscapeBits = 16;

// The layout of the bytes, as settings and shape determine it.
struct Layout {
  int table_bits = 0;
  int lanes = 0;
  bool pairs = false;
  bool even_spread = true;
  int64_t rows_per_block = 1;
  int64_t blocks = 0;  // 0 for a matrix without elements

  int64_t elements_per_symbol() const { return pairs ? 2 : 1; }
  int64_t elements_per_step() const { return lanes * elements_per_symbol(); }
};

inline Layout layout_of(datasets::Shape shape, const Settings& settings) {
  Layout layout{static_cast<int>(settings.integer("table_bits")), static_cast<int>(settings.integer("lanes")),
                settings.text("symbols") == "pairs", settings.text("spread") == "even"};
  if (shape.elements() == 0) return layout;
  layout.rows_per_block = std::clamp<int64_t>(settings.integer("block_elements") / shape.cols, 1, shape.rows);
  layout.blocks = (shape.rows + layout.rows_per_block - 1) / layout.rows_per_block;
  return layout;
}

// Elements of one block; the last block may be shorter.
inline int64_t block_elements(const Layout& layout, datasets::Shape shape, int64_t block) {
  return std::min(layout.rows_per_block, shape.rows - block * layout.rows_per_block) * shape.cols;
}

}  // namespace ecmv::codecs::tans
