// The model of a matrix for tans: symbols with frequencies, how they are spread over the states, and the decoding
// table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codecs/tans/format.h"

namespace ecmv::codecs::tans {

// Symbols are numbered by their position in the alphabet; an escape, if there is one, is the last.
struct Model {
  int table_bits = 0;
  int symbols = 0;  // with the escape
  bool has_escape = false;
  std::array<uint16_t, 1 << kMaxTableBits> value{};      // element (u8) or pair (u16)
  std::array<uint16_t, 1 << kMaxTableBits> frequency{};  // 1 .. 2^table_bits
};

// The symbol of each of 2^table_bits slots. `even` puts the i-th of q occurrences near (i + 1/2) / q of the table, by a
// counting sort. Otherwise the classic walk with the step 5/8 L + 3.
void spread_symbols(const Model& model, bool even, uint16_t* symbol_of_slot);

// value (16) | base (12) << 16 | bits (4) << 28: the next state is base + that many bits of the stream. An escape has
// bits = kEscapeMark, and its true bits in place of the value.
using Entry = uint32_t;
inline constexpr uint32_t kEscapeMark = 15;
void build_table(const Model& model, bool even_spread, Entry* table);

// Reads and checks the section `alphabet`; throws MalformedStream.
void read_model(std::span<const std::byte> alphabet, const Layout& layout, Model& model);
// The same without checks, for kernels, whose streams were verified before. Never allocates.
void trusted_model(std::span<const std::byte> alphabet, const Layout& layout, Model& model);
std::vector<std::byte> write_alphabet(const Model& model, const Layout& layout);

// The model of these elements (at least one), rows of cols. A block's odd last element is paired with itself. Throws
// std::invalid_argument if there are more values than slots.
Model fit_model(std::span<const int8_t> elements, int64_t cols, const Layout& layout);

}  // namespace ecmv::codecs::tans
