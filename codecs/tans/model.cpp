// For pairs, the alphabet holds the pairs that deserve at least half a slot. All others share an escape, which costs
// its own code and 16 bits.
#include "codecs/tans/model.h"

#include <algorithm>
#include <bit>
#include <string>

#include "codecs/codec.h"
#include "codecs/modelling/histogram.h"
#include "codecs/modelling/normalise.h"

namespace ecmv::codecs::tans {
namespace {

uint32_t read_u16(const std::byte* bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8;
}

void append_u16(std::vector<std::byte>& bytes, uint32_t value) {
  bytes.push_back(static_cast<std::byte>(value & 255));
  bytes.push_back(static_cast<std::byte>(value >> 8));
}

Model fit_singles(std::span<const int8_t> elements, int table_bits) {
  const std::vector<uint32_t> frequencies = modelling::normalise(modelling::histogram(elements), table_bits);
  Model model;
  model.table_bits = table_bits;
  for (int bin = 0; bin < 256; ++bin)
    if (frequencies[bin] > 0) {
      model.value[model.symbols] = static_cast<uint8_t>(bin - 128);
      model.frequency[model.symbols++] = static_cast<uint16_t>(frequencies[bin]);
    }
  return model;
}

// Pairs are counted as blocks are coded: they begin anew with every block, which may have an odd number of elements.
Model fit_pairs(std::span<const int8_t> elements, size_t block_elements, int table_bits) {
  std::vector<uint64_t> counts(1 << 16);
  uint64_t pairs = 0;
  for (size_t begin = 0; begin < elements.size(); begin += block_elements) {
    const auto block = elements.subspan(begin, std::min(block_elements, elements.size() - begin));
    for (size_t i = 0; i < block.size(); i += 2, ++pairs) {
      const auto first = static_cast<uint8_t>(block[i]),
                 second = static_cast<uint8_t>(block[std::min(i + 1, block.size() - 1)]);
      ++counts[first | second << 8];
    }
  }
  // If there are more pairs than slots, the rarest go first: the demand rises until they fit.
  std::vector<uint16_t> kept;
  uint64_t escaped = 0;
  const auto choose = [&](uint64_t halves) {
    kept.clear();
    escaped = 0;
    for (uint32_t pair = 0; pair < counts.size(); ++pair) {
      if (counts[pair] == 0) continue;
      if ((counts[pair] << table_bits) * 2 >= halves * pairs)
        kept.push_back(static_cast<uint16_t>(pair));
      else
        escaped += counts[pair];
    }
  };
  for (uint64_t halves = 1; halves == 1 || kept.size() + (escaped > 0) > size_t{1} << table_bits; ++halves)
    choose(halves);

  std::vector<uint64_t> kept_counts;
  for (uint16_t pair : kept) kept_counts.push_back(counts[pair]);
  if (escaped > 0) kept_counts.push_back(escaped);
  const std::vector<uint32_t> frequencies = modelling::normalise(kept_counts, table_bits);
  Model model;
  model.table_bits = table_bits;
  model.symbols = static_cast<int>(kept_counts.size());
  model.has_escape = escaped > 0;
  std::copy(kept.begin(), kept.end(), model.value.begin());
  std::copy(frequencies.begin(), frequencies.end(), model.frequency.begin());
  return model;
}

}  // namespace

void spread_symbols(const Model& model, bool even, uint16_t* symbol_of_slot) {
  const uint32_t size = 1u << model.table_bits;
  if (!even) {
    const uint32_t step = size / 2 + size / 8 + 3;
    uint32_t slot = 0;
    for (int s = 0; s < model.symbols; ++s)
      for (uint32_t i = 0; i < model.frequency[s]; ++i, slot = (slot + step) & (size - 1))
        symbol_of_slot[slot] = static_cast<uint16_t>(s);
    return;
  }
  std::array<uint16_t, (1 << kMaxTableBits) + 1> begin{};
  const auto place = [&](uint32_t q, uint32_t i) { return (2 * i + 1) * size / (2 * q); };
  for (int s = 0; s < model.symbols; ++s)
    for (uint32_t i = 0; i < model.frequency[s]; ++i) ++begin[place(model.frequency[s], i) + 1];
  for (uint32_t slot = 0; slot < size; ++slot) begin[slot + 1] = static_cast<uint16_t>(begin[slot + 1] + begin[slot]);
  for (int s = 0; s < model.symbols; ++s)
    for (uint32_t i = 0; i < model.frequency[s]; ++i)
      symbol_of_slot[begin[place(model.frequency[s], i)]++] = static_cast<uint16_t>(s);
}

void build_table(const Model& model, bool even_spread, Entry* table) {
  std::array<uint16_t, 1 << kMaxTableBits> symbol_of_slot, occurrence = model.frequency;
  spread_symbols(model, even_spread, symbol_of_slot.data());
  const uint32_t size = 1u << model.table_bits;
  for (uint32_t slot = 0; slot < size; ++slot) {
    const uint32_t s = symbol_of_slot[slot], x = occurrence[s]++;
    const auto bits = static_cast<uint32_t>(model.table_bits - (std::bit_width(x) - 1));
    const uint32_t base = (x << bits) - size;
    const bool escape = model.has_escape && static_cast<int>(s) == model.symbols - 1;
    table[slot] = (escape ? bits : model.value[s]) | base << 16 | (escape ? kEscapeMark : bits) << 28;
  }
}

void trusted_model(std::span<const std::byte> alphabet, const Layout& layout, Model& model) {
  model.table_bits = layout.table_bits;
  if (!layout.pairs) {
    model.symbols = static_cast<int>(alphabet.size() / 3);
    model.has_escape = false;
    for (int s = 0; s < model.symbols; ++s) {
      model.value[s] = static_cast<uint8_t>(alphabet[s]);
      model.frequency[s] = static_cast<uint16_t>(read_u16(&alphabet[model.symbols + 2 * s]) + 1);
    }
    return;
  }
  const int pairs = static_cast<int>((alphabet.size() - 2) / 4);
  for (int s = 0; s < pairs; ++s) {
    model.value[s] = static_cast<uint16_t>(read_u16(&alphabet[2 + 2 * s]));
    model.frequency[s] = static_cast<uint16_t>(read_u16(&alphabet[2 + 2 * (pairs + s)]) + 1);
  }
  const uint32_t escape = read_u16(&alphabet[0]);
  model.has_escape = escape > 0;
  model.symbols = pairs + (model.has_escape ? 1 : 0);
  if (model.has_escape) model.frequency[pairs] = static_cast<uint16_t>(escape);
}

void read_model(std::span<const std::byte> alphabet, const Layout& layout, Model& model) {
  const size_t header = layout.pairs ? 2 : 0, each = layout.pairs ? 4 : 3, slots = size_t{1} << layout.table_bits;
  if (alphabet.size() < header || (alphabet.size() - header) % each != 0 || (alphabet.size() - header) / each > slots)
    throw MalformedStream("The alphabet of a tans stream has an impossible size.");
  const size_t symbols = (alphabet.size() - header) / each;
  const uint32_t escape = layout.pairs ? read_u16(&alphabet[0]) : 0;
  if (symbols + (escape > 0) > slots) throw MalformedStream("The alphabet of a tans stream has an impossible size.");
  const auto value = [&](size_t s) {
    return layout.pairs ? static_cast<int>(read_u16(&alphabet[2 + 2 * s])) : static_cast<int8_t>(alphabet[s]);
  };
  uint64_t sum = escape;
  for (size_t s = 0; s < symbols; ++s) {
    if (s > 0 && value(s - 1) >= value(s)) throw MalformedStream("The symbols of a tans alphabet do not ascend.");
    sum += read_u16(&alphabet[header + (each - 2) * symbols + 2 * s]) + 1;
  }
  if (sum != slots)
    throw MalformedStream("The frequencies of a tans alphabet add up to " + std::to_string(sum) + ", not to 2^" +
                          std::to_string(layout.table_bits) + ".");
  trusted_model(alphabet, layout, model);
}

std::vector<std::byte> write_alphabet(const Model& model, const Layout& layout) {
  std::vector<std::byte> bytes;
  const int listed = model.symbols - (model.has_escape ? 1 : 0);
  if (layout.pairs) append_u16(bytes, model.has_escape ? model.frequency[listed] : 0);
  for (int s = 0; s < listed; ++s) {
    bytes.push_back(static_cast<std::byte>(model.value[s] & 255));
    if (layout.pairs) bytes.push_back(static_cast<std::byte>(model.value[s] >> 8));
  }
  for (int s = 0; s < listed; ++s) append_u16(bytes, model.frequency[s] - 1u);
  return bytes;
}

Model fit_model(std::span<const int8_t> elements, int64_t cols, const Layout& layout) {
  const auto block_elements = static_cast<size_t>(layout.rows_per_block * cols);
  return layout.pairs ? fit_pairs(elements, block_elements, layout.table_bits)
                      : fit_singles(elements, layout.table_bits);
}

}  // namespace ecmv::codecs::tans
