// A matrix as the scalar and the SIMD kernels are bound to it, and their table of slots, which every enqueue makes from
// the stored tables.
#pragma once

#include <array>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/matvans_warp_per_row/format.h"

namespace ecmv::codecs::matvans_warp_per_row {

// A matrix as the kernels read it.
struct StoredMatrix {
  datasets::Shape shape;
  std::span<const std::byte> payload, cursors;
  const std::byte* cdf;
  const std::byte* ppf;
  const std::byte* min_value;
};

inline StoredMatrix stored_matrix(const CompressedView& compressed) {
  const auto bytes_of = [&](SectionNumber section) { return compressed.sections[section].bytes; };
  return {compressed.shape,      bytes_of(kPayload),    bytes_of(kCursors),
          bytes_of(kCdf).data(), bytes_of(kPpf).data(), bytes_of(kMinValue).data()};
}

// One load gives everything about a slot: symbol | position inside the symbol << 8 | probability << 16.
using SlotTable = std::array<uint32_t, kSlots>;

inline SlotTable slot_table(const StoredMatrix& matrix) {
  const std::byte *cdf = matrix.cdf, *ppf = matrix.ppf;
  const uint32_t min_value = static_cast<uint32_t>(*matrix.min_value);
  SlotTable table;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const uint32_t value = static_cast<uint32_t>(ppf[slot]);
    const uint32_t first = static_cast<uint32_t>(cdf[value]), next = static_cast<uint32_t>(cdf[value + 1]);
    table[slot] = ((min_value + value) & 0xFF) | (slot - first) << 8 | ((next - first) & 0xFF) << 16;
  }
  return table;
}

}  // namespace ecmv::codecs::matvans_warp_per_row
