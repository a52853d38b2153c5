// The model of a matrix: its symbols, their frequencies, and which slot means which symbol. The alias method deals the
// slots, so a symbol's slots are no interval: the low bits of a slot name a bucket, the rest is a position in it, and a
// bucket holds at most two symbols, its own below `split` and an alias from there on. A decoder may expand this to a
// table with an entry for each slot, or keep the buckets in registers: 64 of them fit where 4096 slots do not.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::rans {

struct Model {
  int prob_bits = 0;
  int symbols = 0;      // n, 1..256
  int bucket_bits = 0;  // bucket_bits_of(symbols)
  std::array<int8_t, 256> value{};
  std::array<uint32_t, 256> frequency{};  // 0 from n on
  // Positions below split[b] of bucket b are symbol b with rank = position; the others are symbol alias[b] with rank =
  // position + bias[b] modulo 2^16.
  std::array<uint32_t, 256> split{};
  std::array<uint8_t, 256> alias{};
  std::array<uint16_t, 256> bias{};

  uint32_t bucket_size() const { return uint32_t{1} << (prob_bits - bucket_bits); }
};

// A slot: its symbol, and its rank among that symbol's slots.
struct Slot {
  uint8_t symbol;
  uint32_t rank;
};

inline Slot slot_of(const Model& model, uint32_t slot) {
  const uint32_t bucket = slot & ((1u << model.bucket_bits) - 1), position = slot >> model.bucket_bits;
  if (position < model.split[bucket]) return {static_cast<uint8_t>(bucket), position};
  return {model.alias[bucket], static_cast<uint16_t>(position + model.bias[bucket])};
}

// Reads and checks the section `alphabet` and deals the slots. Throws MalformedStream.
Model read_model(std::span<const std::byte> alphabet, int prob_bits);
// The same without checks, for kernels, whose streams were verified before. Never allocates.
Model trusted_model(std::span<const std::byte> alphabet, int prob_bits);
std::vector<std::byte> write_alphabet(const Model& model);

// The optimal model of these elements (at least one). Throws std::invalid_argument if there are more symbols than
// slots.
Model fit_model(std::span<const int8_t> elements, int prob_bits);

}  // namespace ecmv::codecs::rans
