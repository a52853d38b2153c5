// A model's slots as a table, an entry each, for decoders that look slots up in memory. With up to 12 bits an entry has
// 32 bits and the table (16 KiB) fits every first-level cache.
#pragma once

#include <cstdint>

#include "codecs/rans/model.h"

namespace ecmv::codecs::rans {

// value (8) | frequency (12) << 8 | rank (12) << 20. A lone symbol's frequency of 4096 does not fit: kernels treat such
// matrices separately.
struct NarrowEntry {
  using Bits = uint32_t;
  static constexpr int kMaxProbBits = 12;
  static Bits pack(int8_t value, uint32_t frequency, uint32_t rank) {
    return static_cast<uint8_t>(value) | frequency << 8 | rank << 20;
  }
  static uint32_t frequency(Bits entry) { return (entry >> 8) & 0xFFF; }
  static uint32_t rank(Bits entry) { return entry >> 20; }
};

// value (8) | frequency (24) << 8 | rank (32) << 32.
struct WideEntry {
  using Bits = uint64_t;
  static constexpr int kMaxProbBits = 16;
  static Bits pack(int8_t value, uint32_t frequency, uint32_t rank) {
    return static_cast<uint8_t>(value) | uint64_t{frequency} << 8 | uint64_t{rank} << 32;
  }
  static uint32_t frequency(Bits entry) { return static_cast<uint32_t>(entry) >> 8; }
  static uint32_t rank(Bits entry) { return static_cast<uint32_t>(entry >> 32); }
};

template <class Entry>
void expand_slots(const Model& model, typename Entry::Bits* table) {
  for (uint32_t slot = 0; slot < (1u << model.prob_bits); ++slot) {
    const Slot dealt = slot_of(model, slot);
    table[slot] = Entry::pack(model.value[dealt.symbol], model.frequency[dealt.symbol], dealt.rank);
  }
}

}  // namespace ecmv::codecs::rans
