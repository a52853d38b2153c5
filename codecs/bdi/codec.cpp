// bdi: base-delta-immediate compression. A block is cut into equal elements; each is stored as a short signed delta to
// the block's base or to zero, and a mask has a bit an element that says which. The encoder tries six pairs of widths,
// zeros and a repeated word; a tag of 4 bits names the shortest. Idea: Pekhimenko et al., PACT 2012; the layout of tag,
// mask, base and deltas is our own.
#include <optional>

#include "codecs/compressed_matrix.h"
#include "codecs/modelling/memory_blocks.h"

namespace ecmv::codecs::bdi {
namespace {

using namespace modelling;

constexpr int kTagBits = 4;
constexpr uint64_t kZeros = 0, kRepeated = 1, kFirstWidths = 2, kRaw = 15;
constexpr int kZerosPayloadBits = 8;  // always zero; the size that all published models count

struct Widths {
  int base_bytes, delta_bytes;
};
constexpr Widths kWidths[] = {{8, 1}, {8, 2}, {8, 4}, {4, 1}, {4, 2}, {2, 1}};  // tags kFirstWidths, ...

bool is_zero(std::span<const std::byte> block) {
  return std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
}

bool is_repeated(std::span<const std::byte> block) { return std::equal(block.begin() + 8, block.end(), block.begin()); }

int64_t widths_bits(Widths widths, size_t block_bytes) {
  const auto elements = static_cast<int64_t>(block_bytes) / widths.base_bytes;
  return kTagBits + elements + 8 * widths.base_bytes + 8 * widths.delta_bytes * elements;
}

// A block as deltas of these widths.
struct Deltas {
  uint64_t base = 0;
  std::array<bool, kLargestMemoryBlock / 2> to_base = {};
  std::array<uint64_t, kLargestMemoryBlock / 2> delta = {};
};

// Nothing if some element is near neither zero nor the base. The base is the first element that is not near zero.
std::optional<Deltas> find_deltas(std::span<const std::byte> block, Widths widths) {
  const int base_bits = 8 * widths.base_bytes, delta_bits = 8 * widths.delta_bytes;
  Deltas deltas;
  bool has_base = false;
  for (size_t i = 0; i < block.size() / widths.base_bytes; ++i) {
    const uint64_t element = load_word(block, i * widths.base_bytes, widths.base_bytes);
    deltas.delta[i] = element;
    if (fits_signed(sign_extend(element, base_bits), delta_bits)) continue;
    if (!has_base) deltas.base = element;
    has_base = true;
    deltas.to_base[i] = true;
    deltas.delta[i] = element - deltas.base;
    if (!fits_signed(sign_extend(deltas.delta[i], base_bits), delta_bits)) return std::nullopt;
  }
  return deltas;
}

struct Choice {
  uint64_t tag = kRaw;
  Deltas deltas;
};

// The shortest code; among equals the one with the lowest tag. `size` gives the bits of a pair of widths, `raw` those
// of the block itself.
template <class Size>
Choice choose(std::span<const std::byte> block, int64_t raw, Size size) {
  if (is_zero(block)) return {kZeros, {}};
  if (is_repeated(block)) return {kRepeated, {}};
  Choice best;
  int64_t least = raw;
  for (size_t i = 0; i < std::size(kWidths); ++i) {
    const int64_t bits = size(kWidths[i]);
    if (bits >= least) continue;
    if (std::optional<Deltas> deltas = find_deltas(block, kWidths[i])) {
      best = {kFirstWidths + i, *deltas};
      least = bits;
    }
  }
  return best;
}

Choice choose_stored(std::span<const std::byte> block) {
  return choose(block, kTagBits + 8 * static_cast<int64_t>(block.size()),
                [&](Widths w) { return widths_bits(w, block.size()); });
}

class Coder : public BlockCoder {
 public:
  void encode(std::span<const std::byte> block, BitWriter& out) const override {
    const Choice choice = choose_stored(block);
    out.put(choice.tag, kTagBits);
    if (choice.tag == kZeros) {
      out.put(0, kZerosPayloadBits);
    } else if (choice.tag == kRepeated) {
      put_word(out, load_word(block, 0, 8), 64);
    } else if (choice.tag == kRaw) {
      for (const std::byte byte : block) out.put(std::to_integer<uint64_t>(byte), 8);
    } else {
      const Widths widths = kWidths[choice.tag - kFirstWidths];
      const size_t elements = block.size() / widths.base_bytes;
      for (size_t i = 0; i < elements; ++i) out.put(choice.deltas.to_base[i], 1);
      put_word(out, choice.deltas.base, 8 * widths.base_bytes);
      for (size_t i = 0; i < elements; ++i) out.put(choice.deltas.delta[i], 8 * widths.delta_bytes);
    }
  }

  // The payload of a zero block, and the base of a block whose elements are all near zero, carry no information.
  int64_t filler_bits(std::span<const std::byte> block) const override {
    const Choice choice = choose_stored(block);
    if (choice.tag == kZeros) return kZerosPayloadBits;
    if (choice.tag == kRepeated || choice.tag == kRaw) return 0;
    const auto& to_base = choice.deltas.to_base;
    const bool has_base = std::find(to_base.begin(), to_base.end(), true) != to_base.end();
    return has_base ? 0 : 8 * kWidths[choice.tag - kFirstWidths].base_bytes;
  }

  void decode(BitReader& in, std::span<std::byte> block) const override {
    const uint64_t tag = in.read(kTagBits);
    if (tag == kZeros) {
      if (in.read(kZerosPayloadBits) != 0) throw MalformedStream("A block of zeros has a payload that is not zero.");
      std::fill(block.begin(), block.end(), std::byte{0});
    } else if (tag == kRepeated) {
      const uint64_t word = read_word(in, 64);
      for (size_t i = 0; i < block.size(); i += 8) store_word(block, i, 8, word);
    } else if (tag == kRaw) {
      for (std::byte& byte : block) byte = static_cast<std::byte>(in.read(8));
    } else if (tag < kFirstWidths + std::size(kWidths)) {
      decode_deltas(in, block, kWidths[tag - kFirstWidths]);
    } else {
      throw MalformedStream("There is no encoding " + std::to_string(tag) + " of a block.");
    }
  }

 private:
  static void decode_deltas(BitReader& in, std::span<std::byte> block, Widths widths) {
    const size_t elements = block.size() / widths.base_bytes;
    std::array<bool, kLargestMemoryBlock / 2> to_base = {};
    for (size_t i = 0; i < elements; ++i) to_base[i] = in.read(1) == 1;
    const uint64_t base = read_word(in, 8 * widths.base_bytes);
    for (size_t i = 0; i < elements; ++i) {
      const auto delta = static_cast<uint64_t>(sign_extend(in.read(8 * widths.delta_bytes), 8 * widths.delta_bytes));
      store_word(block, i * widths.base_bytes, widths.base_bytes, (to_base[i] ? base : 0) + delta);
    }
  }
};

// The article's sizes: tag and mask live with the cache's tags and cost nothing.
int64_t pact12_bits(std::span<const std::byte> block) {
  const auto raw = 8 * static_cast<int64_t>(block.size());
  const auto bits = [&](Widths w) {
    return 8 * (w.base_bytes + static_cast<int64_t>(block.size()) / w.base_bytes * w.delta_bytes);
  };
  const Choice choice = choose(block, raw, bits);
  if (choice.tag == kZeros) return 8;
  if (choice.tag == kRepeated) return 64;
  return choice.tag == kRaw ? raw : bits(kWidths[choice.tag - kFirstWidths]);
}

// The released simulator of the MPC paper, which differs in five ways. Elements are zero-extended, so negative ones are
// never near zero. A difference is the base less the element, the reverse of ours. A number fits if it is non-negative
// and fits unsigned, or negative and fits signed, except -1. The base itself has no delta (and where there is no base
// one delta is still subtracted). Where some delta does not fit, elements near zero are short and the others raw.
bool cal22_fits(int64_t value, int bits) {
  if (value >= 0) return value < int64_t{1} << bits;
  return value != -1 && fits_signed(value, bits);
}

int64_t cal22_bits(std::span<const std::byte> block) {
  if (is_zero(block)) return kTagBits + kZerosPayloadBits;
  if (is_repeated(block)) return kTagBits + 64;
  int64_t least = 8 * static_cast<int64_t>(block.size());
  for (const Widths widths : kWidths) {
    const auto elements = static_cast<int64_t>(block.size()) / widths.base_bytes;
    const int bits = 8 * widths.delta_bytes;
    int64_t immediates = 0, base = 0;
    bool has_base = false, all_fit = true;
    for (int64_t i = 0; i < elements; ++i) {
      const auto element =
          static_cast<int64_t>(load_word(block, static_cast<size_t>(i * widths.base_bytes), widths.base_bytes));
      if (cal22_fits(element, bits)) {
        ++immediates;
        continue;
      }
      if (!has_base) base = element;
      has_base = true;
      const auto delta = static_cast<int64_t>(static_cast<uint64_t>(base) - static_cast<uint64_t>(element));
      all_fit = all_fit && cal22_fits(delta, bits);
    }
    const int64_t others = elements - immediates;
    const int64_t bytes = all_fit ? widths.base_bytes + (others - 1) * widths.delta_bytes : others * widths.base_bytes;
    least = std::min(least, elements + 8 * (immediates * widths.delta_bytes + bytes));
  }
  return kTagBits + least;
}

int64_t most_block_bits(const Settings& settings) { return kTagBits + 8 * block_bytes(settings); }

}  // namespace

const Codec& codec() {
  static const Codec codec =
      make_block_codec<Coder>({.summary = "base-delta-immediate compression of memory blocks",
                               .source = "Pekhimenko et al.: Base-delta-immediate compression, PACT 2012",
                               .settings = block_settings({32, 64, 128})},
                              most_block_bits, {accounting("cal22", cal22_bits), accounting("pact12", pact12_bits)});
  return codec;
}

}  // namespace ecmv::codecs::bdi
