// See lut_code.h.
#include "codecs/modelling/lut_code.h"

#include <algorithm>
#include <set>
#include <utility>

#include "codecs/modelling/code_lengths.h"

namespace ecmv::codecs::modelling {
namespace {

// The prefixes of 8, 16 or 24 bits that need a sub-table, as (levels, prefix).
std::set<std::pair<int, uint32_t>> subtables_of(const LutCode& code) {
  std::set<std::pair<int, uint32_t>> prefixes;
  for (size_t symbol = 0; symbol < code.lengths.size(); ++symbol)
    for (int level = 1; 8 * level < code.lengths[symbol]; ++level)
      prefixes.insert({level, code.codes[symbol] >> (code.lengths[symbol] - 8 * level)});
  return prefixes;
}

// The lengths with the `rare` least frequent symbols as a group below one node of a code of at most 8 bits. A
// node at depth 4 or deeper spans 16 prefixes at most.
std::vector<uint8_t> grouped_lengths(const std::vector<uint64_t>& counts, const std::vector<size_t>& by_count,
                                     size_t rare) {
  std::vector<uint64_t> frequent = counts, group(counts.size(), 0);
  uint64_t weight = 0;
  for (size_t i = 0; i < rare; ++i) {
    const size_t symbol = by_count[i];
    group[symbol] = counts[symbol];
    frequent[symbol] = 0;
    weight += counts[symbol];
  }
  frequent[by_count[0]] = weight;  // stands for the group
  std::vector<uint8_t> lengths = limited_code_lengths(frequent, 8);
  const int depth = lengths[by_count[0]];
  const std::vector<uint8_t> below = limited_code_lengths(group, 16 - depth);
  for (size_t i = 0; i < rare; ++i) lengths[by_count[i]] = static_cast<uint8_t>(depth + below[by_count[i]]);
  return lengths;
}

}  // namespace

LutCode best_lut_code(const std::vector<uint64_t>& counts, int max_bits) {
  LutCode best;
  uint64_t best_bits = UINT64_MAX;
  const auto consider = [&](std::vector<uint8_t> lengths) {
    const uint64_t bits = coded_bits(counts, lengths);
    if (bits >= best_bits) return;
    LutCode code{std::move(lengths), {}};
    code.codes = canonical_codes(code.lengths);
    if (subtables_of(code).size() > size_t{kLutMaxSubtables}) return;
    best_bits = bits;
    best = std::move(code);
  };
  consider(limited_code_lengths(counts, max_bits));
  if (best_bits < UINT64_MAX) return best;  // the optimum fits the tables
  consider(limited_code_lengths(counts, 8));
  std::vector<size_t> by_count;
  for (size_t symbol = 0; symbol < counts.size(); ++symbol)
    if (counts[symbol] > 0) by_count.push_back(symbol);
  std::stable_sort(by_count.begin(), by_count.end(), [&](size_t a, size_t b) { return counts[a] < counts[b]; });
  for (size_t rare = 2; rare + 1 < by_count.size(); ++rare) consider(grouped_lengths(counts, by_count, rare));
  return best;
}

std::vector<std::byte> make_luts(const LutCode& code, size_t decoded_symbols) {
  const auto prefixes = subtables_of(code);
  std::vector<std::pair<int, uint32_t>> tables{{0, 0}};
  tables.insert(tables.end(), prefixes.begin(), prefixes.end());
  std::vector<std::byte> luts((tables.size() + 1) * kLutRow, std::byte{0});
  const auto table_of = [&](int level, uint32_t prefix) {
    return static_cast<size_t>(std::find(tables.begin(), tables.end(), std::pair{level, prefix}) - tables.begin());
  };
  for (size_t symbol = 0; symbol < code.lengths.size(); ++symbol) {
    const int length = code.lengths[symbol];
    if (length == 0) continue;
    size_t table = 0;
    int level = 0;
    for (; 8 * (level + 1) < length; ++level) {
      const uint32_t prefix = code.codes[symbol] >> (length - 8 * (level + 1));
      const size_t next = table_of(level + 1, prefix);
      luts[table * kLutRow + (prefix & 0xff)] = static_cast<std::byte>(256 - next);
      table = next;
    }
    if (symbol >= decoded_symbols) continue;
    const int bits_here = length - 8 * level;
    const size_t first = (code.codes[symbol] & ((1u << bits_here) - 1)) << (8 - bits_here);
    std::fill_n(luts.begin() + static_cast<ptrdiff_t>(table * kLutRow + first), size_t{1} << (8 - bits_here),
                static_cast<std::byte>(symbol));
    luts[tables.size() * kLutRow + symbol] = static_cast<std::byte>(length);
  }
  return luts;
}

LutReader::LutReader(std::span<const std::byte> luts) : luts_(luts), tables_(luts.size() / kLutRow - 1) {
  if (luts.size() % kLutRow != 0 || luts.size() < 2 * kLutRow || luts.size() > (kLutMaxSubtables + 2) * kLutRow)
    throw MalformedStream("The look-up tables must be 2 to 18 rows of 256 bytes.");
}

uint32_t LutReader::take(BitReader& reader, int max_bits) const {
  const uint64_t window = reader.peek(kLutMaxCodeBits);
  size_t table = 0;
  for (int level = 0; level < kLutMaxCodeBits / 8; ++level) {
    const size_t index = window >> (kLutMaxCodeBits - 8 * (level + 1)) & 0xff;
    const uint32_t entry = std::to_integer<uint32_t>(luts_[table * kLutRow + index]);
    if (entry < uint32_t{kLutMaxSymbols}) {
      const int length = std::to_integer<int>(luts_[tables_ * kLutRow + entry]);
      if (length == 0) throw MalformedStream("A symbol has a code of length 0.");
      if (length <= 8 * level || length > 8 * (level + 1))
        throw MalformedStream("A symbol's code length does not belong to its table.");
      if (length > max_bits)
        throw MalformedStream("A code has " + std::to_string(length) + " bits, more than the " +
                              std::to_string(max_bits) + " of this element type.");
      reader.skip(length);
      return entry;
    }
    table = 256 - entry;
    if (table >= tables_) throw MalformedStream("A table entry points outside the tables.");
  }
  throw MalformedStream("A code is longer than four tables.");
}

}  // namespace ecmv::codecs::modelling
