// What the scalar and the SIMD kernels look up for a slot, made from the stored tables at the start of a launch.
#pragma once

#include <array>

#include "codecs/compressed_matrix.h"
#include "codecs/matvans_warp_per_row/format.h"

namespace ecmv::codecs::matvans_warp_per_row {

// One load for all that a slot means: symbol | position inside the symbol << 8 | probability << 16.
using SlotTable = std::array<uint32_t, kSlots>;

inline SlotTable slot_table(const CompressedView& compressed) {
  const auto cdf = compressed.sections[kCdf].bytes, ppf = compressed.sections[kPpf].bytes;
  const uint32_t min_value = static_cast<uint32_t>(compressed.sections[kMinValue].bytes[0]);
  SlotTable table;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const uint32_t value = static_cast<uint32_t>(ppf[slot]);
    const uint32_t first = static_cast<uint32_t>(cdf[value]), next = static_cast<uint32_t>(cdf[value + 1]);
    table[slot] = ((min_value + value) & 0xFF) | (slot - first) << 8 | ((next - first) & 0xFF) << 16;
  }
  return table;
}

}  // namespace ecmv::codecs::matvans_warp_per_row
