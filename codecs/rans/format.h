// The stored bytes of rans. Blocks of whole rows are independent. Inside a block the elements, row after row, are dealt
// to `lanes` states: element i belongs to lane i mod lanes, and one step decodes one element of every lane. The last
// step is filled up with the most frequent symbol.
//
//   alphabet       table    n symbols (u8, ascending as int8), then n frequencies - 1 (u16); the frequencies sum to
//                           2^prob_bits
//   block_offsets  index    blocks + 1 byte offsets (u64) into payload; the last is the end of the last block
//   payload        payload  per block: lanes states (u32 or u64), then words in the order in which decoding takes them;
//                           after the last block kPayloadPadding zero bytes, so that kernels may load whole vectors
//
// Within a step the lanes that fall below the lower bound take the next words in lane order. Everything is
// little-endian. A matrix without elements has three empty sections.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::rans {

enum SectionNumber { kAlphabet, kBlockOffsets, kPayload };
inline constexpr int64_t kPayloadPadding = 128;
inline constexpr int kMaxLanes = 64;

// The setting `state` gives the types of state and word; states live in [kLower, kLower << 8 * sizeof(Word)).
enum class StateForm : uint8_t { w16s32, w32s64, w8s32 };
struct W16S32 {
  static constexpr StateForm kForm = StateForm::w16s32;
  using State = uint32_t;
  using Word = uint16_t;
  static constexpr State kLower = State{1} << 16;
};
struct W32S64 {
  static constexpr StateForm kForm = StateForm::w32s64;
  using State = uint64_t;
  using Word = uint32_t;
  static constexpr State kLower = State{1} << 31;
};
struct W8S32 {
  static constexpr StateForm kForm = StateForm::w8s32;
  using State = uint32_t;
  using Word = uint8_t;
  static constexpr State kLower = State{1} << 23;
};
// f(W16S32{}), f(W32S64{}) or f(W8S32{}); the results are of one type.
template <class F>
auto with_form(StateForm form, F f) {
  if (form == StateForm::w16s32) return f(W16S32{});
  if (form == StateForm::w32s64) return f(W32S64{});
  return f(W8S32{});
}

// The layout of the bytes, as settings and shape determine it.
struct Layout {
  StateForm state = StateForm::w16s32;
  int prob_bits = 0;
  int lanes = 0;
  int64_t rows_per_block = 1;
  int64_t blocks = 0;  // 0 for a matrix without elements

  int64_t state_bytes() const { return state == StateForm::w32s64 ? 8 : 4; }
};

inline Layout layout_of(datasets::Shape shape, const Settings& settings) {
  const std::string& state = settings.text("state");
  Layout layout;
  layout.state = state == "w16s32" ? StateForm::w16s32 : state == "w32s64" ? StateForm::w32s64 : StateForm::w8s32;
  layout.prob_bits = static_cast<int>(settings.integer("prob_bits"));
  layout.lanes = static_cast<int>(settings.integer("lanes"));
  if (shape.elements() == 0) return layout;
  layout.rows_per_block = std::clamp<int64_t>(settings.integer("block_elements") / shape.cols, 1, shape.rows);
  layout.blocks = (shape.rows + layout.rows_per_block - 1) / layout.rows_per_block;
  return layout;
}

// A symbol takes 3 bytes of the section `alphabet`.
inline int symbols_of(std::span<const std::byte> alphabet) { return static_cast<int>(alphabet.size() / 3); }

// There are 2^bucket_bits buckets; bucket_bits is the least of 6, 7, 8 that gives every symbol a bucket.
inline int bucket_bits_of(int symbols) { return symbols <= 64 ? 6 : symbols <= 128 ? 7 : 8; }

// Elements of one block; the last block may be shorter.
inline int64_t block_elements(const Layout& layout, datasets::Shape shape, int64_t block) {
  return std::min(layout.rows_per_block, shape.rows - block * layout.rows_per_block) * shape.cols;
}

}  // namespace ecmv::codecs::rans
