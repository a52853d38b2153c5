// Packs the exceptions of rans_byte_planes: tries all lengths of gaps and of delta numbers.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "codecs/rans_byte_planes/deltas.h"
#include "codecs/rans_byte_planes/format.h"

namespace ecmv::codecs::rans_byte_planes {

struct Exception {
  int64_t gap = 0;  // elements since the exception before, within the block
  int delta = 0;
};

// Exceptions as entries of a gap and a delta's number. If there are more deltas than numbers, the rare ones are sums of
// entries. An entry with the widest gap only moves on.
struct Packing {
  bool possible = false;
  int gap_bits = 0, delta_bits = 0;
  std::array<int16_t, kDeltas> deltas{};
  std::vector<uint32_t> entries;
  std::vector<uint64_t> first_entry;  // by exception, and the end
  uint64_t bits() const { return entries.size() * static_cast<uint64_t>(gap_bits + delta_bits); }
};
inline Packing pack_with(std::span<const Exception> exceptions, int gap_bits, int delta_bits,
                         const std::vector<std::pair<int64_t, int>>& order) {
  Packing out;
  out.gap_bits = gap_bits;
  out.delta_bits = delta_bits;
  const size_t numbers = size_t{1} << delta_bits;
  std::vector<int> numbered;
  for (const auto& [count, delta] : order)
    if (numbered.size() < numbers) numbered.push_back(delta);
  DeltaSums sums(numbered);
  if (!sums.reach(order) && numbers >= kAnySum.size()) {
    numbered.assign(kAnySum.begin(), kAnySum.end());
    for (const auto& [count, delta] : order)
      if (numbered.size() < numbers && std::find(numbered.begin(), numbered.end(), delta) == numbered.end())
        numbered.push_back(delta);
    sums = DeltaSums(numbered);
  }
  if (!sums.reach(order)) return out;
  out.possible = true;
  for (size_t i = 0; i < numbered.size(); ++i) out.deltas[i] = static_cast<int16_t>(numbered[i]);

  const int64_t widest = (int64_t{1} << gap_bits) - 1;
  const auto enter = [&](int64_t gap, size_t number) {
    out.entries.push_back(static_cast<uint32_t>(gap | number << gap_bits));
  };
  for (const Exception& exception : exceptions) {
    out.first_entry.push_back(out.entries.size());
    int64_t gap = exception.gap;
    for (; gap >= widest; gap -= widest) enter(widest, 0);
    for (int delta = exception.delta; delta != 0;) {
      const int number = sums.last_number(delta);
      enter(gap, number);
      gap = 0;
      delta -= numbered[number];
    }
  }
  out.first_entry.push_back(out.entries.size());
  return out;
}

// The shortest packing.
inline Packing pack_exceptions(std::span<const Exception> exceptions) {
  std::map<int, int64_t> counts;
  for (const Exception& e : exceptions) ++counts[e.delta];
  std::vector<std::pair<int64_t, int>> order;  // most frequent first
  for (const auto& [delta, count] : counts) order.push_back({-count, delta});
  std::sort(order.begin(), order.end());
  // With enough bits every delta has a number.
  const int all =
      std::clamp(static_cast<int>(std::bit_width(std::max<size_t>(order.size(), 1) - 1)), kMinDeltaBits, kMaxDeltaBits);
  Packing best;
  for (int delta_bits = kMinDeltaBits; delta_bits <= all; ++delta_bits)
    for (int gap_bits = kMinGapBits; gap_bits <= kMaxGapBits; ++gap_bits) {
      Packing packing = pack_with(exceptions, gap_bits, delta_bits, order);
      if (packing.possible && (!best.possible || packing.bits() < best.bits())) best = std::move(packing);
    }
  return best;
}

// Numbers of `width` bits, from the lowest bit up.
inline std::vector<std::byte> packed(const std::vector<uint32_t>& entries, uint64_t width) {
  std::vector<std::byte> bytes((entries.size() * width + 7) / 8, std::byte{0});
  uint64_t bit = 0;
  for (uint32_t entry : entries)
    for (uint64_t i = 0; i < width; ++i, ++bit) bytes[bit / 8] |= static_cast<std::byte>((entry >> i & 1) << bit % 8);
  return bytes;
}

}  // namespace ecmv::codecs::rans_byte_planes
