// See lut_code.h.
#include "codecs/modelling/lut_code.h"

#include <algorithm>
#include <bit>
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

// Lengths that keep the `rare` least frequent symbols as a group below one node of a code of at most 8 bits. A node at
// depth 4 or deeper spans at most 16 prefixes.
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
  follow_pointers();
}

// Whether an entry in a table of that level belongs to a code and so equals all entries that begin like it.
bool LutReader::is_code(size_t table, size_t index, int level) const {
  const uint32_t symbol = entry(table, index);
  if (symbol >= uint32_t{kLutMaxSymbols}) return false;
  const int bits = length(symbol) - 8 * level;
  if (bits < 1 || bits > 8) return false;
  const size_t count = size_t{1} << (8 - bits), first = index / count * count;
  for (size_t i = first; i < first + count; ++i)
    if (entry(table, i) != symbol) return false;
  return true;
}

// A kernel that has the first k bits of a window (k is at most 16) and zeros for the others looks up the first entry of
// all windows that begin with these bits. If that entry belongs to no code but names a symbol of at most k bits, the
// kernel takes it for that symbol; so no code may be among those windows.
void LutReader::follow_pointers() {
  constexpr size_t kMostEntries = 300'000;  // counted once for each entry that points to a table
  struct Entry {
    uint64_t begin;  // of its windows, as numbers of 32 bits
    int length;
    bool is_code;
  };
  std::vector<Entry> entries;
  std::vector<int> level_of(tables_, -1);
  is_code_.resize(tables_ * kLutRow);
  const auto walk = [&](const auto& self, size_t table, int level, uint64_t begin) -> void {
    if (table >= tables_) throw MalformedStream("A table entry points outside the tables.");
    if (level >= kLutMaxCodeBits / 8) throw MalformedStream("A code is longer than four tables.");
    if (level_of[table] >= 0 && level_of[table] != level)
      throw MalformedStream("A look-up table is reached after different numbers of bits.");
    if (level_of[table] < 0)
      for (size_t index = 0; index < kLutRow; ++index) is_code_[table * kLutRow + index] = is_code(table, index, level);
    level_of[table] = level;
    const int shift = kLutMaxCodeBits - 8 * (level + 1);
    for (size_t index = 0; index < kLutRow; ++index) {
      const uint32_t symbol = entry(table, index);
      const uint64_t here = begin | uint64_t{index} << shift;
      if (symbol >= uint32_t{kLutMaxSymbols})
        self(self, 256 - symbol, level + 1, here);
      else
        entries.push_back({here, length(symbol), is_code_[table * kLutRow + index]});
    }
    if (entries.size() > kMostEntries)
      throw MalformedStream("The look-up tables have more codes than symbols can have.");
  };
  walk(walk, 0, 0, 0);
  std::vector<uint32_t> codes_before = {0};
  for (const Entry& here : entries) codes_before.push_back(codes_before.back() + here.is_code);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& here = entries[i];
    if (here.is_code || here.length == 0) continue;
    const int least = here.begin == 0 ? 1 : kLutMaxCodeBits - std::countr_zero(here.begin),
              bits = std::max(least, here.length);
    if (bits > 16) continue;
    const uint64_t end = here.begin + (uint64_t{1} << (kLutMaxCodeBits - bits));
    const auto last = std::lower_bound(entries.begin(), entries.end(), end,
                                       [](const Entry& one, uint64_t value) { return one.begin < value; });
    if (codes_before[static_cast<size_t>(last - entries.begin())] != codes_before[i])
      throw MalformedStream("The look-up tables hide a code behind an entry that belongs to none.");
  }
}

uint32_t LutReader::take(BitReader& reader, int max_bits) const {
  const uint64_t window = reader.peek(kLutMaxCodeBits);
  size_t table = 0;
  for (int level = 0;; ++level) {  // pointers have been followed before
    const size_t index = window >> (kLutMaxCodeBits - 8 * (level + 1)) & 0xff;
    const uint32_t symbol = entry(table, index);
    if (symbol >= uint32_t{kLutMaxSymbols}) {
      table = 256 - symbol;
      continue;
    }
    if (length(symbol) == 0) throw MalformedStream("A symbol has a code of length 0.");
    if (!is_code_[table * kLutRow + index]) throw MalformedStream("The coded bits are no code of the look-up tables.");
    if (length(symbol) > max_bits)
      throw MalformedStream("A code has " + std::to_string(length(symbol)) + " bits, more than the " +
                            std::to_string(max_bits) + " of this element type.");
    reader.skip(length(symbol));
    return symbol;
  }
}

}  // namespace ecmv::codecs::modelling
