// Coders of codes: fixed length, Huffman, tANS and rANS behind one interface, so that every kind of pair goes through
// each of them. ANS decodes in the reverse order of its encoding, so all of them encode backwards, into a stack of
// bits: the last bit pushed is read first. A decoder may start wherever the encoder's position and state were saved.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "codecs/modelling/bit_io.h"

namespace ecmv::codecs::coding_pairs {

// Bits pushed last come out first, each value with its most significant bit first.
class BitStack {
 public:
  // The low `count` (0..56) bits of `value`; the others are zero.
  void push(uint64_t value, int count) {
    pending_ |= value << filled_;
    filled_ += count;
    for (; filled_ >= 8; filled_ -= 8, pending_ >>= 8) bytes_.push_back(static_cast<std::byte>(pending_));
  }
  int64_t bits() const { return static_cast<int64_t>(bytes_.size()) * 8 + filled_; }
  // All bits for a BitReader, with zeros before the first up to a whole byte. Empties the stack.
  std::vector<std::byte> finish() {
    push(0, (8 - filled_) & 7);
    std::reverse(bytes_.begin(), bytes_.end());
    return std::exchange(bytes_, {});
  }

 private:
  std::vector<std::byte> bytes_;
  uint64_t pending_ = 0;
  int filled_ = 0;  // 0..7 between calls
};

// What a coder stores for each code: a frequency (ANS), a length (Huffman) or nothing.
enum class CoderKind { fixed, huffman, tans8, tans16, rans16 };
CoderKind coder_kind(std::string_view name);  // throws std::logic_error: names were checked as settings
std::span<const std::string_view> coder_names();
int weight_bytes(CoderKind kind);  // of one stored frequency or length
int state_bytes(CoderKind kind);   // of one saved state
int64_t most_codes(CoderKind kind);

// Frequencies or lengths for codes that occur `counts` times; no count is 0.
std::vector<uint32_t> fit_weights(CoderKind kind, std::span<const uint64_t> counts);
// Throws MalformedStream unless fit_weights() could have made these weights.
void check_weights(CoderKind kind, std::span<const uint32_t> weights);

// A coder numbers its codes 0 .. weights.size() - 1.
class Coder {
 public:
  virtual ~Coder() = default;
  virtual void encode(uint32_t code, BitStack& bits) = 0;
  virtual uint32_t decode(modelling::BitReader& bits) = 0;
  // Encoding starts in the first state and decoding ends there. A saved state fits state_bytes(); set_state throws
  // MalformedStream for states that cannot occur.
  virtual uint64_t state() const { return 0; }
  virtual void set_state(uint64_t) {}
  virtual uint64_t first_state() const { return 0; }
};
std::unique_ptr<Coder> make_coder(CoderKind kind, std::span<const uint32_t> weights);

// tANS with 2^bits states (4 <= bits <= 16). Frequencies add up to 2^bits.
std::unique_ptr<Coder> make_tans(std::span<const uint32_t> frequencies, int bits);

}  // namespace ecmv::codecs::coding_pairs
