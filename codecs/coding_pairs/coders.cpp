// tANS spreads by steps and orders a code's occurrences as in the table. rANS has states of [2^16, 2^32) and puts out
// 16 bits at a time. Huffman codes are canonical, at most 24 bits long.
#include "codecs/coding_pairs/coders.h"

#include <array>
#include <bit>
#include <stdexcept>
#include <string>

#include "codecs/modelling/code_lengths.h"
#include "codecs/modelling/normalise.h"

namespace ecmv::codecs::coding_pairs {
namespace {

using modelling::BitReader;

constexpr int kMaxLength = 24;
constexpr std::string_view kNames[] = {"fixed", "huffman", "tans8", "tans16", "rans16"};

int probability_bits(CoderKind kind) { return kind == CoderKind::tans8 ? 8 : 16; }
bool is_ans(CoderKind kind) { return kind != CoderKind::fixed && kind != CoderKind::huffman; }
int fixed_length(size_t codes) { return static_cast<int>(std::bit_width(codes - 1)); }

class Fixed final : public Coder {
 public:
  explicit Fixed(size_t codes) : codes_(codes), length_(fixed_length(codes)) {}
  void encode(uint32_t code, BitStack& bits) override { bits.push(code, length_); }
  uint32_t decode(BitReader& bits) override {
    const uint64_t code = bits.read(length_);
    if (code >= codes_) throw MalformedStream("A code of fixed length is higher than the highest one.");
    return static_cast<uint32_t>(code);
  }

 private:
  size_t codes_;
  int length_;
};

class Huffman final : public Coder {
 public:
  explicit Huffman(std::span<const uint32_t> lengths)
      : lengths_(lengths.begin(), lengths.end()),
        words_(modelling::canonical_codes(lengths_)),
        order_(modelling::canonical_order(lengths_)) {
    for (const uint32_t length : lengths) ++count_[length];
  }
  void encode(uint32_t code, BitStack& bits) override { bits.push(words_[code], lengths_[code]); }
  uint32_t decode(BitReader& bits) override {
    const uint64_t window = bits.peek(kMaxLength);
    uint64_t first = 0, before = 0;  // the first word of a length, and how many are shorter
    for (int length = 1; length <= kMaxLength; ++length) {
      first <<= 1;
      const uint64_t word = window >> (kMaxLength - length);
      if (word < first + count_[static_cast<size_t>(length)]) {
        bits.skip(length);
        return order_[before + word - first];
      }
      first += count_[static_cast<size_t>(length)];
      before += count_[static_cast<size_t>(length)];
    }
    throw MalformedStream("There is no such Huffman code.");
  }

 private:
  std::vector<uint8_t> lengths_;
  std::vector<uint32_t> words_, order_;
  std::array<uint64_t, kMaxLength + 1> count_{};
};

class Tans final : public Coder {
 public:
  Tans(std::span<const uint32_t> frequencies, int bits)
      : bits_(bits),
        size_(1u << bits),
        state_(size_),
        q_(frequencies.begin(), frequencies.end()),
        table_(size_),
        next_(size_) {
    std::vector<uint32_t> first;  // by code: where its occurrences begin in next_
    uint32_t begin = 0, slot = 0;
    std::vector<uint32_t> code_of_slot(size_);
    const uint32_t step = size_ / 2 + size_ / 8 + 3;
    for (uint32_t code = 0; code < q_.size(); ++code) {
      first.push_back(begin);
      begin += q_[code];
      for (uint32_t i = 0; i < q_[code]; ++i, slot = (slot + step) & (size_ - 1)) code_of_slot[slot] = code;
    }
    first_ = first;
    std::vector<uint32_t> occurrence = q_;
    for (slot = 0; slot < size_; ++slot) {
      const uint32_t code = code_of_slot[slot], x = occurrence[code]++;
      const int renormalise = bits_ - (std::bit_width(x) - 1);
      table_[slot] = {x << renormalise, static_cast<uint16_t>(code), static_cast<uint8_t>(renormalise)};
      next_[first_[code] + x - q_[code]] = size_ + slot;
    }
  }
  void encode(uint32_t code, BitStack& bits) override {
    const uint32_t q = q_[code];
    int count = std::bit_width(state_) - std::bit_width(q);
    if ((state_ >> count) < q) --count;
    bits.push(state_ & ((1u << count) - 1), count);
    state_ = next_[first_[code] + (state_ >> count) - q];
  }
  uint32_t decode(BitReader& bits) override {
    const Entry& entry = table_[state_ - size_];
    state_ = entry.base | static_cast<uint32_t>(bits.read(entry.bits));
    return entry.code;
  }
  uint64_t state() const override { return state_ - size_; }
  void set_state(uint64_t state) override {
    if (state >= size_) throw MalformedStream("A saved tANS state is out of its range.");
    state_ = size_ + static_cast<uint32_t>(state);
  }

 private:
  struct Entry {
    uint32_t base = 0;
    uint16_t code = 0;
    uint8_t bits = 0;
  };
  int bits_;
  uint32_t size_, state_;
  std::vector<uint32_t> q_;
  std::vector<Entry> table_;
  std::vector<uint32_t> next_, first_;
};

// States are in [2^16, 2^32), frequencies have 16 bits.
class Rans final : public Coder {
 public:
  explicit Rans(std::span<const uint32_t> frequencies)
      : q_(frequencies.begin(), frequencies.end()), code_of_slot_(1 << 16) {
    uint32_t begin = 0;
    for (uint32_t code = 0; code < q_.size(); ++code) {
      begin_.push_back(begin);
      std::fill_n(code_of_slot_.begin() + begin, q_[code], static_cast<uint16_t>(code));
      begin += q_[code];
    }
  }
  void encode(uint32_t code, BitStack& bits) override {
    const uint32_t q = q_[code];
    if (state_ >> 16 >= q) {  // the bound q << 16 may need 33 bits
      bits.push(state_ & 0xFFFF, 16);
      state_ >>= 16;
    }
    state_ = ((state_ / q) << 16) + state_ % q + begin_[code];
  }
  uint32_t decode(BitReader& bits) override {
    const uint32_t slot = state_ & 0xFFFF, code = code_of_slot_[slot];
    state_ = q_[code] * (state_ >> 16) + slot - begin_[code];
    if (state_ < kFirst) state_ = state_ << 16 | static_cast<uint32_t>(bits.read(16));
    return code;
  }
  uint64_t state() const override { return state_; }
  uint64_t first_state() const override { return kFirst; }
  void set_state(uint64_t state) override {
    if (state < kFirst || state >> 32 != 0) throw MalformedStream("A saved rANS state is out of its range.");
    state_ = static_cast<uint32_t>(state);
  }

 private:
  static constexpr uint32_t kFirst = 1u << 16;
  uint32_t state_ = kFirst;
  std::vector<uint32_t> q_, begin_;
  std::vector<uint16_t> code_of_slot_;
};

}  // namespace

std::span<const std::string_view> coder_names() { return kNames; }

CoderKind coder_kind(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return static_cast<CoderKind>(i);
  throw std::logic_error("There is no coder " + std::string(name) + ".");
}

int weight_bytes(CoderKind kind) { return kind == CoderKind::fixed ? 0 : kind == CoderKind::huffman ? 1 : 2; }

int state_bytes(CoderKind kind) { return !is_ans(kind) ? 0 : kind == CoderKind::rans16 ? 4 : 2; }

int64_t most_codes(CoderKind kind) { return is_ans(kind) ? int64_t{1} << probability_bits(kind) : 65536; }

std::vector<uint32_t> fit_weights(CoderKind kind, std::span<const uint64_t> counts) {
  if (is_ans(kind)) return modelling::normalise(counts, probability_bits(kind));
  if (kind == CoderKind::fixed) return std::vector<uint32_t>(counts.size());
  const std::vector<uint8_t> lengths = modelling::limited_code_lengths(counts, kMaxLength);
  return {lengths.begin(), lengths.end()};
}

void check_weights(CoderKind kind, std::span<const uint32_t> weights) {
  if (static_cast<int64_t>(weights.size()) > most_codes(kind))
    throw MalformedStream("The model of a pair stream has more codes than its coder can tell apart.");
  if (is_ans(kind)) {
    uint64_t sum = 0;
    for (const uint32_t q : weights) sum += q;
    if (sum != uint64_t{1} << probability_bits(kind) || std::ranges::find(weights, 0u) != weights.end())
      throw MalformedStream("The frequencies of a pair stream add up to " + std::to_string(sum) + ", not to 2^" +
                            std::to_string(probability_bits(kind)) + ".");
  } else if (kind == CoderKind::huffman) {
    uint64_t used = 0;
    for (const uint32_t length : weights) {
      if (length < 1 || length > kMaxLength)
        throw MalformedStream("The model of a pair stream has a code of " + std::to_string(length) + " bits.");
      used += uint64_t{1} << (kMaxLength - length);
    }
    const bool one = weights.size() == 1 && weights[0] == 1;
    if (!one && used != uint64_t{1} << kMaxLength)
      throw MalformedStream("The code lengths of a pair stream are none of a complete code.");
  }
}

std::unique_ptr<Coder> make_tans(std::span<const uint32_t> frequencies, int bits) {
  return std::make_unique<Tans>(frequencies, bits);
}

std::unique_ptr<Coder> make_coder(CoderKind kind, std::span<const uint32_t> weights) {
  switch (kind) {
    case CoderKind::fixed: return std::make_unique<Fixed>(weights.size());
    case CoderKind::huffman: return std::make_unique<Huffman>(weights);
    case CoderKind::rans16: return std::make_unique<Rans>(weights);
    default: return make_tans(weights, probability_bits(kind));
  }
}

}  // namespace ecmv::codecs::coding_pairs
