// Huffman codes for the hierarchical look-up tables of DFloat11 (Zhang et al., arXiv 2504.11651). Tables are rows of
// 256 bytes. A code's first 8 bits index row 0; an entry below 240 is a symbol, from 240 on a pointer to row 256 -
// entry, which the following 8 bits index. The last row holds the code length of each symbol. At most 16 rows can be
// pointed to. Plain Huffman lengths can need more (any flat distribution over more than some hundred values does); then
// the rarest symbols are kept together below one node of a code of at most 8 bits, for the best size of that group.
// Lengths of at most 8 bits need no pointer, so a code always exists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codecs/modelling/bit_io.h"

namespace ecmv::codecs::modelling {

inline constexpr int kLutRow = 256;
inline constexpr int kLutMaxSymbols = 240;  // entries 240..255 are pointers
inline constexpr int kLutMaxSubtables = 16;
inline constexpr int kLutMaxCodeBits = 32;  // four rows deep

struct LutCode {
  std::vector<uint8_t> lengths;  // [symbols]; 0: no code
  std::vector<uint32_t> codes;   // [symbols] first bit most significant, right-aligned
};

// The best code of at most max_bits (16..32) bits that the tables can hold, for counts [symbols, 241 at most].
LutCode best_lut_code(const std::vector<uint64_t>& counts, int max_bits);

// The tables, [tables + 1, 256]. Codes of symbols from `decoded_symbols` on are reserved but never decoded: their
// entries are 0.
std::vector<std::byte> make_luts(const LutCode& code, size_t decoded_symbols);

// Reads code after code through stored tables. Every step is checked, so any bytes end in a symbol or in
// MalformedStream. Only prefix codes are accepted: all entries that begin with a symbol's code must be that symbol's,
// because kernels look codes up by their first bits and would find other symbols otherwise.
class LutReader {
 public:
  // Throws unless there are 2 to 18 whole rows, each reached after one number of bits. Also throws if an entry that
  // belongs to no code hides a code from a reader of its first bits (entries of a reserved code are 0, which is a
  // symbol, too).
  explicit LutReader(std::span<const std::byte> luts);
  // Throws for entries that belong to no code, and for codes longer than max_bits or than the rest of the stream.
  uint32_t take(BitReader& reader, int max_bits) const;

 private:
  uint32_t entry(size_t table, size_t index) const { return std::to_integer<uint32_t>(luts_[table * kLutRow + index]); }
  int length(uint32_t symbol) const { return std::to_integer<int>(luts_[tables_ * kLutRow + symbol]); }
  bool is_code(size_t table, size_t index, int level) const;
  void follow_pointers();
  std::span<const std::byte> luts_;
  size_t tables_;              // without the row of lengths
  std::vector<bool> is_code_;  // [tables * 256]
};

}  // namespace ecmv::codecs::modelling
