// 1. Start from the rounded proportional share, at least 1.
// 2. Repair the sum, one unit at a time: give where it saves most, take where it costs least.
// 3. Move single units from the cheapest giver to the best taker while that saves bits. The cost is convex in every
//    frequency, so when no single move helps, nothing does.
// Costs are count * log2((q+1)/q) with the logarithm in 2^-56 units, found by repeated squaring in integers.
#include "codecs/modelling/normalise.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ecmv::codecs::modelling {
namespace {

__extension__ using Cost = unsigned __int128;
constexpr int kLogBits = 56;

// floor(2^56 * log2((q + 1) / q)), up to an error of a few units; exactly 2^56 for q = 1.
uint64_t log2_step(uint32_t q) {
  if (q == 1) return uint64_t{1} << kLogBits;
  constexpr int kPoint = 63;
  uint64_t mantissa = static_cast<uint64_t>(((Cost{q} + 1) << kPoint) / q);  // in [1, 2) with 63 fraction bits
  uint64_t result = 0;
  for (int bit = 0; bit < kLogBits; ++bit) {
    const Cost square = (Cost{mantissa} * mantissa) >> kPoint;
    const bool one = square >> (kPoint + 1) != 0;
    mantissa = static_cast<uint64_t>(one ? square >> 1 : square);
    result = result << 1 | (one ? 1u : 0u);
  }
  return result;
}

// One used symbol, with the bits saved by one unit more and lost by one unit less.
struct Share {
  size_t index;
  uint64_t count;
  uint32_t q;
  Cost gain_of_more = 0;
  Cost loss_of_less = 0;

  void set(uint32_t new_q) {
    q = new_q;
    gain_of_more = Cost{count} * log2_step(q);
    loss_of_less = q > 1 ? Cost{count} * log2_step(q - 1) : ~Cost{0};
  }
};

Share& best_taker(std::vector<Share>& shares) {
  return *std::max_element(shares.begin(), shares.end(),
                           [](const Share& a, const Share& b) { return a.gain_of_more < b.gain_of_more; });
}

Share& cheapest_giver(std::vector<Share>& shares) {
  return *std::min_element(shares.begin(), shares.end(),
                           [](const Share& a, const Share& b) { return a.loss_of_less < b.loss_of_less; });
}

}  // namespace

std::vector<uint32_t> normalise(std::span<const uint64_t> counts, int bits) {
  if (bits < 1 || bits > 30)
    throw std::invalid_argument("Frequencies can be normalised to 1 to 30 bits, not to " + std::to_string(bits) + ".");
  const uint64_t target = uint64_t{1} << bits;
  std::vector<uint32_t> frequencies(counts.size(), 0);
  std::vector<Share> shares;
  uint64_t total = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    total += counts[i];
    if (counts[i] != 0) shares.push_back({i, counts[i], 0});
  }
  if (shares.empty()) return frequencies;
  if (shares.size() > target)
    throw std::invalid_argument("There are " + std::to_string(shares.size()) +
                                " different symbols, too many for frequencies with the sum " + std::to_string(target) +
                                ".");

  uint64_t sum = 0;
  for (Share& share : shares) {
    const auto rounded = static_cast<uint32_t>(((Cost{share.count} << (bits + 1)) + total) / (Cost{total} * 2));
    share.set(std::max<uint32_t>(1, rounded));
    sum += share.q;
  }

  for (; sum < target; ++sum) {
    Share& taker = best_taker(shares);
    taker.set(taker.q + 1);
  }
  for (; sum > target; --sum) {
    Share& giver = cheapest_giver(shares);
    giver.set(giver.q - 1);
  }

  for (;;) {
    Share& taker = best_taker(shares);
    Share& giver = cheapest_giver(shares);
    if (giver.loss_of_less >= taker.gain_of_more || &giver == &taker) break;
    taker.set(taker.q + 1);
    giver.set(giver.q - 1);
  }
  for (const Share& share : shares) frequencies[share.index] = share.q;
  return frequencies;
}

}  // namespace ecmv::codecs::modelling
