// The stored bytes of coding_pairs. The elements, row after row, are cut into segments of `checkpoint_elements` (0: one
// segment). A segment is a sequence of pairs that describe its elements alone; the coder's state runs on from one to
// the next.
//
//   model        table    u32 n; n codes (u16, ascending); n weights: frequencies - 1 (u16, tANS and rANS), lengths
//                         (u8, Huffman) or none
//   checkpoints  index    for every segment: bit position in payload (48 bits), the coder's state there (0, 2 or 4
//   bytes) payload      payload  bits, most significant bit first, from the position of segment 0 (fewer than 8 zero
//   bits
//                         before it) to the last: for every pair what its coder takes (tANS, rANS: after the code,
//                         which the state tells), then the extra bits
//
// Everything else is little-endian. A matrix without elements has three empty sections.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codecs/coding_pairs/coders.h"
#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::coding_pairs {

enum SectionNumber { kModel, kCheckpoints, kPayload };
inline constexpr int kPositionBytes = 6;

// The layout of the bytes, as settings and shape determine it.
struct Layout {
  CoderKind coder = CoderKind::rans16;
  int64_t elements = 0;
  int64_t segment = 0;   // elements of a segment; the last may be shorter
  int64_t segments = 0;  // 0 for a matrix without elements

  int64_t entry_bytes() const { return kPositionBytes + state_bytes(coder); }
};

inline Layout layout_of(datasets::Shape shape, const Settings& settings) {
  Layout layout{coder_kind(settings.text("coder")), shape.elements()};
  if (layout.elements == 0) return layout;
  const int64_t asked = settings.integer("checkpoint_elements");
  layout.segment = asked == 0 ? layout.elements : std::min(asked, layout.elements);
  layout.segments = (layout.elements + layout.segment - 1) / layout.segment;
  return layout;
}

}  // namespace ecmv::codecs::coding_pairs
