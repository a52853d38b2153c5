// Deltas that exceptions add to decoded elements. An entry names one delta of a short list; other deltas are sums of
// entries. A short list makes every entry shorter, and the encoder repairs with symbols that this list suffices for.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "codecs/rans_byte_planes/format.h"

namespace ecmv::codecs::rans_byte_planes {

inline constexpr int kMaxDelta = 255;  // between int8 values

// Any delta is a sum of a few of these.
inline constexpr std::array<int, 10> kAnySum = {128, -128, 64, -64, 16, -16, 4, -4, 1, -1};

// Shortest sums: how many entries a delta takes, by breadth-first search.
class DeltaSums {
 public:
  explicit DeltaSums(const std::vector<int>& numbered) {
    count_.fill(-1);
    last_.fill(-1);
    std::vector<int> queue = {0};
    count_[kMaxDelta] = 0;
    for (size_t head = 0; head < queue.size(); ++head)
      for (size_t number = 0; number < numbered.size(); ++number) {
        const int sum = queue[head] + numbered[number];
        if (std::abs(sum) > kMaxDelta || count_[sum + kMaxDelta] >= 0) continue;
        count_[sum + kMaxDelta] = count_[queue[head] + kMaxDelta] + 1;
        last_[sum + kMaxDelta] = static_cast<int>(number);
        queue.push_back(sum);
      }
  }
  int count(int delta) const { return count_[delta + kMaxDelta]; }         // -1: no sum
  int last_number(int delta) const { return last_[delta + kMaxDelta]; }    // one of the entries
  bool reach(const std::vector<std::pair<int64_t, int>>& counted) const {  // pairs of a count and a delta
    for (const auto& [number, delta] : counted)
      if (count(delta) < 0) return false;
    return true;
  }

 private:
  std::array<int, 2 * kMaxDelta + 1> count_{}, last_{};
};

// Bits (in units of 2^-16) that an exception is expected to cost.
class DeltaCost {
 public:
  DeltaCost() = default;
  int64_t of(int delta) const { return cost_[delta + kMaxDelta]; }

  // Lists worth a try: any delta at the price of a long list, or up to four distances in both directions. Gaps take
  // about 11.4 bits at one exception in 600 elements.
  static const std::vector<DeltaCost>& candidates() {
    static const std::vector<DeltaCost> all = [] {
      std::vector<DeltaCost> out = {any()};
      for (int unit = 1; unit <= 32; ++unit)
        for (const std::vector<int>& multiples :
             {std::vector<int>{1}, {1, 2}, {2, 3}, {3, 4}, {1, 2, 3, 4}, {2, 3, 4, 5}}) {
          std::vector<int> numbered;
          for (int m : multiples)
            if (m * unit <= kMaxDelta) numbered.push_back(m * unit), numbered.push_back(-m * unit);
          out.push_back(DeltaCost(numbered));
        }
      return out;
    }();
    return all;
  }

 private:
  static constexpr int64_t kBit = 1 << 16, kGapCost = 11 * kBit + 2 * kBit / 5;
  static DeltaCost any() {
    DeltaCost out;
    out.cost_.fill(kGapCost + 5 * kBit);
    out.cost_[kMaxDelta] = 0;
    return out;
  }
  explicit DeltaCost(const std::vector<int>& numbered) {
    const DeltaSums sums(numbered);
    int bits = 1;
    while ((size_t{1} << bits) < numbered.size()) ++bits;
    // A delta that no sum reaches makes the list longer for all.
    for (int delta = -kMaxDelta; delta <= kMaxDelta; ++delta)
      cost_[delta + kMaxDelta] = sums.count(delta) < 0 ? 64 * kBit : sums.count(delta) * (kGapCost + bits * kBit);
  }
  std::array<int64_t, 2 * kMaxDelta + 1> cost_{};
};

}  // namespace ecmv::codecs::rans_byte_planes
