// Length-limited Huffman codes: code lengths by package-merge (Larmore and Hirschberg 1990), codes in canonical order.
// It uses integers only and breaks every tie by symbol index, so the same counts give the same code on every platform.
// All codecs that store a prefix code share it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ecmv::codecs::modelling {

// The lengths [counts.size()] of an optimal prefix code among those with no code longer than `max_bits`
// (1..32). Symbols with count 0 get length 0 (no code); a single used symbol gets one bit. Throws
// std::invalid_argument if more than 2^max_bits symbols are used, if max_bits is out of range or if the
// counts' sum exceeds 2^56.
std::vector<uint8_t> limited_code_lengths(std::span<const uint64_t> counts, int max_bits);

// The symbols that have a code, in canonical order: by length, then by index.
std::vector<uint32_t> canonical_order(std::span<const uint8_t> lengths);

// The codes [lengths.size()] in canonical order, first bit most significant, right-aligned; 0 where the
// length is 0. Throws std::invalid_argument if a length exceeds 32 or if the lengths ask for more codes than
// there are.
std::vector<uint32_t> canonical_codes(std::span<const uint8_t> lengths);

// The number of coded bits of counts under lengths.
uint64_t coded_bits(std::span<const uint64_t> counts, std::span<const uint8_t> lengths);

}  // namespace ecmv::codecs::modelling
