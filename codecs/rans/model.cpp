// Buckets are filled by Vose's form of the alias method, in integers and in the order of the symbols, so that every
// platform deals the slots alike. A symbol gives its highest ranks away first. The ranks 0 .. split-1 remain in its own
// bucket, and for these rank = position.
#include "codecs/rans/model.h"

#include <cstring>
#include <string>

#include "codecs/codec.h"
#include "codecs/modelling/histogram.h"
#include "codecs/modelling/normalise.h"
#include "codecs/rans/format.h"

namespace ecmv::codecs::rans {
namespace {

void deal_slots(Model& model) {
  model.bucket_bits = bucket_bits_of(model.symbols);
  const int buckets = 1 << model.bucket_bits;
  const uint32_t size = model.bucket_size();
  std::array<uint32_t, 256> left = model.frequency;
  std::array<uint8_t, 256> small{}, large{};
  int smalls = 0, larges = 0;
  for (int s = buckets - 1; s >= 0; --s) (left[s] < size ? small[smalls++] : large[larges++]) = static_cast<uint8_t>(s);
  while (smalls > 0) {
    const uint8_t bucket = small[--smalls], giver = large[larges - 1];
    const uint32_t given = size - left[bucket];
    model.split[bucket] = left[bucket];
    model.alias[bucket] = giver;
    left[giver] -= given;
    model.bias[bucket] = static_cast<uint16_t>(left[giver] - model.split[bucket]);
    if (left[giver] < size) {
      --larges;
      small[smalls++] = giver;
    }
  }
  while (larges > 0) {
    const uint8_t bucket = large[--larges];
    model.split[bucket] = size;
    model.alias[bucket] = bucket;
    model.bias[bucket] = 0;
  }
}

uint32_t read_u16(const std::byte* bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8;
}

}  // namespace

Model trusted_model(std::span<const std::byte> alphabet, int prob_bits) {
  Model model;
  model.prob_bits = prob_bits;
  model.symbols = symbols_of(alphabet);
  for (int s = 0; s < model.symbols; ++s) {
    model.value[s] = static_cast<int8_t>(alphabet[s]);
    model.frequency[s] = read_u16(&alphabet[model.symbols + 2 * s]) + 1;
  }
  deal_slots(model);
  return model;
}

Model read_model(std::span<const std::byte> alphabet, int prob_bits) {
  if (alphabet.empty() || alphabet.size() % 3 != 0 || alphabet.size() > 3 * 256)
    throw MalformedStream("The alphabet of a rans stream must hold 1 to 256 symbols of 3 bytes.");
  const size_t symbols = alphabet.size() / 3;
  uint64_t sum = 0;
  for (size_t s = 0; s < symbols; ++s) {
    if (s > 0 && static_cast<int8_t>(alphabet[s - 1]) >= static_cast<int8_t>(alphabet[s]))
      throw MalformedStream("The symbols of a rans alphabet do not ascend.");
    sum += read_u16(&alphabet[symbols + 2 * s]) + 1;
  }
  if (sum != uint64_t{1} << prob_bits)
    throw MalformedStream("The frequencies of a rans alphabet add up to " + std::to_string(sum) + ", not to 2^" +
                          std::to_string(prob_bits) + ".");
  return trusted_model(alphabet, prob_bits);
}

std::vector<std::byte> write_alphabet(const Model& model) {
  std::vector<std::byte> bytes;
  for (int s = 0; s < model.symbols; ++s) bytes.push_back(static_cast<std::byte>(model.value[s]));
  for (int s = 0; s < model.symbols; ++s) {
    bytes.push_back(static_cast<std::byte>((model.frequency[s] - 1) & 255));
    bytes.push_back(static_cast<std::byte>((model.frequency[s] - 1) >> 8));
  }
  return bytes;
}

Model fit_model(std::span<const int8_t> elements, int prob_bits) {
  const modelling::Histogram counts = modelling::histogram(elements);
  const std::vector<uint32_t> frequencies = modelling::normalise(counts, prob_bits);
  Model model;
  model.prob_bits = prob_bits;
  for (int bin = 0; bin < 256; ++bin)
    if (frequencies[bin] > 0) {
      model.value[model.symbols] = static_cast<int8_t>(bin - 128);
      model.frequency[model.symbols++] = frequencies[bin];
    }
  deal_slots(model);
  return model;
}

}  // namespace ecmv::codecs::rans
