// fpc: frequent pattern compression. Three bits name one of eight patterns for every 32-bit word of a block, and the
// bits that the pattern leaves open follow; up to eight zero words are one pattern. Runs end with their block, so a
// block decodes alone. Idea: Alameldeen and Wood, UW-Madison TR 1500.
#include "codecs/compressed_matrix.h"
#include "codecs/modelling/memory_blocks.h"

namespace ecmv::codecs::fpc {
namespace {

using namespace modelling;

enum Prefix : uint64_t { kZeroRun, kSigned4, kSigned8, kSigned16, kHighHalf, kTwoSigned8, kRepeatedByte, kRaw };
constexpr int kPrefixBits = 3, kRunBits = 3;
constexpr size_t kLongestRun = 8;
constexpr int kMaxWordBits = kPrefixBits + 32;

struct Code {
  Prefix prefix;
  uint64_t data;
  int data_bits;
};

Code code_of(uint32_t word) {
  const int64_t value = sign_extend(word, 32);
  if (fits_signed(value, 4)) return {kSigned4, word, 4};
  if (fits_signed(value, 8)) return {kSigned8, word, 8};
  if (fits_signed(value, 16)) return {kSigned16, word, 16};
  if ((word & 0xffff) == 0) return {kHighHalf, word >> 16, 16};
  const int64_t high = sign_extend(word >> 16, 16), low = sign_extend(word, 16);
  if (fits_signed(high, 8) && fits_signed(low, 8)) return {kTwoSigned8, (word >> 16 & 0xff) << 8 | (word & 0xff), 16};
  if (word == (word & 0xff) * 0x01010101u) return {kRepeatedByte, word & 0xff, 8};
  return {kRaw, word, 32};
}

uint32_t word_of(Prefix prefix, BitReader& in) {
  const auto signed_field = [&](int bits) { return static_cast<uint32_t>(sign_extend(in.read(bits), bits)); };
  switch (prefix) {
    case kSigned4: return signed_field(4);
    case kSigned8: return signed_field(8);
    case kSigned16: return signed_field(16);
    case kHighHalf: return static_cast<uint32_t>(in.read(16) << 16);
    case kTwoSigned8: {
      const uint32_t high = signed_field(8), low = signed_field(8);
      return high << 16 | (low & 0xffff);
    }
    case kRepeatedByte: return static_cast<uint32_t>(in.read(8) * 0x01010101u);
    default: return static_cast<uint32_t>(in.read(32));
  }
}

// The number of zero words from `first` on, at most `limit`.
size_t zero_run(std::span<const std::byte> block, size_t first, size_t limit) {
  size_t run = 0;
  while (run < limit && first + run < block.size() / 4 && load_word32(block, first + run) == 0) ++run;
  return run;
}

class Coder : public BlockCoder {
 public:
  void encode(std::span<const std::byte> block, BitWriter& out) const override {
    for (size_t i = 0; i < block.size() / 4;) {
      if (const size_t run = zero_run(block, i, kLongestRun); run > 0) {
        out.put(kZeroRun, kPrefixBits);
        out.put(run - 1, kRunBits);
        i += run;
      } else {
        const Code code = code_of(load_word32(block, i++));
        out.put(code.prefix, kPrefixBits);
        out.put(code.data, code.data_bits);
      }
    }
  }

  void decode(BitReader& in, std::span<std::byte> block) const override {
    for (size_t i = 0; i < block.size() / 4;) {
      const auto prefix = static_cast<Prefix>(in.read(kPrefixBits));
      if (prefix != kZeroRun) {
        store_word32(block, i++, word_of(prefix, in));
        continue;
      }
      const size_t run = in.read(kRunBits) + 1;
      if (run > block.size() / 4 - i) throw MalformedStream("A run of zero words goes beyond its block.");
      for (size_t end = i + run; i < end; ++i) store_word32(block, i, 0);
    }
  }
};

// The released simulator of the MPC paper: a run of any length costs as much as a run of one.
int64_t cal22_bits(std::span<const std::byte> block) {
  int64_t bits = 0;
  for (size_t i = 0; i < block.size() / 4;) {
    if (const size_t run = zero_run(block, i, block.size()); run > 0) {
      bits += kPrefixBits + kRunBits;
      i += run;
    } else {
      bits += kPrefixBits + code_of(load_word32(block, i++)).data_bits;
    }
  }
  return bits;
}

int64_t most_block_bits(const Settings& settings) { return block_bytes(settings) / 4 * kMaxWordBits; }

}  // namespace

const Codec& codec() {
  static const Codec codec =
      make_block_codec<Coder>({.summary = "frequent pattern compression of 32-bit words in memory blocks",
                               .source = "Alameldeen, Wood: Frequent pattern compression, UW-Madison TR 1500, 2004",
                               .settings = block_settings({32, 64, 128})},
                              most_block_bits, {accounting("cal22", cal22_bits)});
  return codec;
}

}  // namespace ecmv::codecs::fpc
