// Package-merge with one sorted list a level. Level 1 holds the leaves (symbols by rising count); level l+1
// holds the leaves merged with the pairs ("packages") of level l. The cheapest 2n-2 items of the last level
// are the solution, and a symbol's length is the number of levels in which its leaf is taken. As leaves are
// taken in order, a level only needs to remember which of its items are leaves: O(n * max_bits) time, one
// byte an item.
#include "codecs/modelling/code_lengths.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace ecmv::codecs::modelling {
namespace {

// The items of level l sum to at most l * (sum of the counts), so with 32 levels no package overflows 64 bits.
constexpr uint64_t kMaxTotal = uint64_t{1} << 56;

std::vector<uint32_t> used_by_rising_count(std::span<const uint64_t> counts) {
  std::vector<uint32_t> used;
  for (size_t symbol = 0; symbol < counts.size(); ++symbol)
    if (counts[symbol] > 0) used.push_back(static_cast<uint32_t>(symbol));
  // Among equal counts the higher index comes first, so that it gets the longer code and canonical order stays close to
  // index order.
  std::sort(used.begin(), used.end(),
            [&](uint32_t a, uint32_t b) { return counts[a] != counts[b] ? counts[a] < counts[b] : a > b; });
  return used;
}

}  // namespace

std::vector<uint8_t> limited_code_lengths(std::span<const uint64_t> counts, int max_bits) {
  if (max_bits < 1 || max_bits > 32)
    throw std::invalid_argument("Code lengths can be limited to 1 to 32 bits, not to " + std::to_string(max_bits) +
                                ".");
  uint64_t total = 0;
  for (const uint64_t count : counts) {
    if (count > kMaxTotal - total)
      throw std::invalid_argument("The symbol counts of a prefix code sum to more than 2^56.");
    total += count;
  }
  const std::vector<uint32_t> symbols = used_by_rising_count(counts);
  const size_t n = symbols.size();
  if (n > uint64_t{1} << max_bits)
    throw std::invalid_argument(std::to_string(n) + " symbols cannot have codes of at most " +
                                std::to_string(max_bits) + " bits.");
  std::vector<uint8_t> lengths(counts.size(), 0);
  if (n == 0) return lengths;
  if (n == 1) {
    lengths[symbols[0]] = 1;
    return lengths;
  }

  std::vector<uint64_t> items(n), merged;
  for (size_t i = 0; i < n; ++i) items[i] = counts[symbols[i]];
  std::vector<std::vector<uint8_t>> is_leaf{std::vector<uint8_t>(n, 1)};
  for (int level = 1; level < max_bits; ++level) {
    const size_t packages = items.size() / 2;
    merged.clear();
    std::vector<uint8_t> flags;
    flags.reserve(n + packages);
    for (size_t leaf = 0, package = 0; leaf < n || package < packages;) {
      const uint64_t pair = package < packages ? items[2 * package] + items[2 * package + 1] : 0;
      const bool take_leaf = package == packages || (leaf < n && counts[symbols[leaf]] <= pair);
      merged.push_back(take_leaf ? counts[symbols[leaf++]] : pair);
      if (!take_leaf) ++package;
      flags.push_back(take_leaf);
    }
    items.swap(merged);
    is_leaf.push_back(std::move(flags));
  }

  size_t take = 2 * n - 2;
  for (auto level = is_leaf.rbegin(); level != is_leaf.rend(); ++level) {
    const size_t leaves =
        static_cast<size_t>(std::count(level->begin(), level->begin() + static_cast<ptrdiff_t>(take), 1));
    for (size_t i = 0; i < leaves; ++i) ++lengths[symbols[i]];
    take = 2 * (take - leaves);
  }
  return lengths;
}

std::vector<uint32_t> canonical_order(std::span<const uint8_t> lengths) {
  std::vector<uint32_t> order;
  for (size_t symbol = 0; symbol < lengths.size(); ++symbol)
    if (lengths[symbol] > 0) order.push_back(static_cast<uint32_t>(symbol));
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return lengths[a] < lengths[b]; });
  return order;
}

std::vector<uint32_t> canonical_codes(std::span<const uint8_t> lengths) {
  std::vector<uint32_t> codes(lengths.size(), 0);
  uint64_t next = 0;  // the next free code, left-aligned in 32 bits
  for (const uint32_t symbol : canonical_order(lengths)) {
    const int length = lengths[symbol];
    if (length > 32) throw std::invalid_argument("A code length of " + std::to_string(length) + " bits exceeds 32.");
    if (next >> 32 != 0) throw std::invalid_argument("The code lengths ask for more codes than a prefix code has.");
    codes[symbol] = static_cast<uint32_t>(next >> (32 - length));
    next += uint64_t{1} << (32 - length);
  }
  if (next > uint64_t{1} << 32)
    throw std::invalid_argument("The code lengths ask for more codes than a prefix code has.");
  return codes;
}

uint64_t coded_bits(std::span<const uint64_t> counts, std::span<const uint8_t> lengths) {
  uint64_t bits = 0;
  for (size_t symbol = 0; symbol < counts.size(); ++symbol) bits += counts[symbol] * lengths[symbol];
  return bits;
}

}  // namespace ecmv::codecs::modelling
