// The static Huffman code of sc2: the most frequent 32-bit words of a sample, and an escape for all others. It is
// trained once a matrix and stored as a table before its blocks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "codecs/modelling/memory_blocks.h"

namespace ecmv::codecs::sc2 {

// A symbol of the code: a word, or the escape.
struct Symbol {
  bool is_escape = false;
  uint32_t word = 0;
  uint8_t length = 0;  // of its code, 1..32 bits
  uint32_t code = 0;   // right-aligned, first bit most significant
};

using WordCounts = std::map<uint32_t, uint64_t>;

// The lengths of a Huffman code by the heap method. Among equal weights the node made first comes first, and leaves are
// in the order of (count, position). If a length would exceed 32, package-merge gives the lengths. A single count gets
// one bit.
std::vector<uint8_t> huffman_lengths(std::span<const uint64_t> counts);

// The `entries` most frequent words, the smaller ones among equals, in the order of the words; counts[i] belongs to
// word i.
struct FrequentWords {
  std::vector<uint32_t> words;
  std::vector<uint64_t> counts;
  uint64_t others = 0;  // counted words that are not among them
};
FrequentWords most_frequent(const WordCounts& counts, int64_t entries);

class WordCode {
 public:
  // Trains on a sample. The escape counts as often as sample words got no code, at least once.
  static WordCode train(const WordCounts& counts, int64_t entries);
  // Reads what write() wrote. Throws MalformedStream for lengths that are no complete prefix code, and for doubled
  // words.
  static WordCode read(std::span<const std::byte> table);
  std::vector<std::byte> write() const;

  const Symbol& escape() const { return escape_; }
  const Symbol* find(uint32_t word) const;  // nullptr: no code of its own
  // Reads one code. Throws MalformedStream for bits that begin no code.
  const Symbol& read_symbol(modelling::BitReader& in) const;
  size_t words() const { return symbols_.size() - 1; }
  int64_t table_bits() const;

 private:
  explicit WordCode(std::vector<Symbol> symbols);  // with lengths; sorts them and gives the codes

  std::vector<Symbol> symbols_;          // by (length, escape first, word): canonical
  std::array<uint64_t, 34> first_ = {};  // [length] of the symbols of that length: the first one's index; then the end
  std::array<uint64_t, 34> first_code_ = {};
  Symbol escape_;
  std::unordered_map<uint32_t, size_t> index_;
};

}  // namespace ecmv::codecs::sc2
