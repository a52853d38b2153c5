// cpack: a 32-bit word is zero, small (a byte), new, or like one of the block's last 16 new words: equal to it, or in
// the upper three or two bytes. The dictionary begins empty with every block, so a block decodes alone. Idea: C-Pack,
// Chen et al., IEEE TVLSI 2010, and by our reading of it new words and partial matches are
// pushed.
#include <optional>

#include "codecs/compressed_matrix.h"
#include "codecs/modelling/memory_blocks.h"

namespace ecmv::codecs::cpack {
namespace {

using namespace modelling;

constexpr size_t kDictionaryWords = 16;
constexpr int kIndexBits = 4;
constexpr int kMaxWordBits = 34;

// The codes, first bits first.
enum class Pattern { zero, fresh, match, match_upper2, low_byte, match_upper3 };
struct Prefix {
  uint64_t code;
  int bits;
};
constexpr Prefix kPrefixes[] = {{0b00, 2}, {0b01, 2}, {0b10, 2}, {0b1100, 4}, {0b1101, 4}, {0b1110, 4}};

// The last 16 words pushed; index 0 is the oldest.
class Dictionary {
 public:
  void push(uint32_t word) {
    if (size_ == kDictionaryWords) {
      std::copy(words_.begin() + 1, words_.end(), words_.begin());
      --size_;
    }
    words_[size_++] = word;
  }
  // The oldest word that equals `word` in its upper bits.
  std::optional<size_t> find(uint32_t word, int low_bits) const {
    for (size_t i = 0; i < size_; ++i)
      if (words_[i] >> low_bits == word >> low_bits) return i;
    return std::nullopt;
  }
  uint32_t at(size_t index) const {
    if (index >= size_)
      throw MalformedStream("A word of a block refers to word " + std::to_string(index) + " of a dictionary of " +
                            std::to_string(size_) + ".");
    return words_[index];
  }

 private:
  std::array<uint32_t, kDictionaryWords> words_ = {};
  size_t size_ = 0;
};

class Coder : public BlockCoder {
 public:
  void encode(std::span<const std::byte> block, BitWriter& out) const override {
    Dictionary dictionary;
    for (size_t i = 0; i < block.size() / 4; ++i) encode_word(load_word32(block, i), dictionary, out);
  }

  void decode(BitReader& in, std::span<std::byte> block) const override {
    Dictionary dictionary;
    for (size_t i = 0; i < block.size() / 4; ++i) store_word32(block, i, decode_word(in, dictionary));
  }

 private:
  static void put_prefix(Pattern pattern, BitWriter& out) {
    const Prefix prefix = kPrefixes[static_cast<int>(pattern)];
    out.put(prefix.code, prefix.bits);
  }

  static void encode_word(uint32_t word, Dictionary& dictionary, BitWriter& out) {
    if (word == 0) return put_prefix(Pattern::zero, out);
    if (const auto index = dictionary.find(word, 0)) {
      put_prefix(Pattern::match, out);
      return out.put(*index, kIndexBits);
    }
    if (word < 256) {
      put_prefix(Pattern::low_byte, out);
      return out.put(word, 8);
    }
    if (const auto index = dictionary.find(word, 8)) {
      put_prefix(Pattern::match_upper3, out);
      out.put(*index, kIndexBits);
      out.put(word, 8);
    } else if (const auto half = dictionary.find(word, 16)) {
      put_prefix(Pattern::match_upper2, out);
      out.put(*half, kIndexBits);
      out.put(word, 16);
    } else {
      put_prefix(Pattern::fresh, out);
      out.put(word, 32);
    }
    dictionary.push(word);
  }

  static Pattern read_pattern(BitReader& in) {
    for (int pattern = 0; pattern < static_cast<int>(std::size(kPrefixes)); ++pattern)
      if (in.peek(kPrefixes[pattern].bits) == kPrefixes[pattern].code) {
        in.skip(kPrefixes[pattern].bits);
        return static_cast<Pattern>(pattern);
      }
    throw MalformedStream("No code of a word begins with 1111.");
  }

  static uint32_t decode_word(BitReader& in, Dictionary& dictionary) {
    const auto field = [&](int bits) { return static_cast<uint32_t>(in.read(bits)); };
    uint32_t word = 0;
    switch (read_pattern(in)) {
      case Pattern::zero: return 0;
      case Pattern::low_byte: return field(8);
      case Pattern::match: return dictionary.at(field(kIndexBits));
      case Pattern::match_upper3:
        word = dictionary.at(field(kIndexBits)) >> 8 << 8;
        word |= field(8);
        break;
      case Pattern::match_upper2:
        word = dictionary.at(field(kIndexBits)) >> 16 << 16;
        word |= field(16);
        break;
      case Pattern::fresh: word = field(32); break;
    }
    dictionary.push(word);
    return word;
  }
};

// The released simulator of the MPC paper. Its dictionary (16 zero words at first) lives on from block to block, so no
// block could be decoded alone. Only new words are pushed, bytes are compared from the lowest address, and the first
// entry with two equal bytes is taken although a later one may match better.
class Cal22 {
 public:
  int64_t operator()(std::span<const std::byte> block) {
    int64_t bits = 0;
    for (size_t i = 0; i < block.size() / 4; ++i) bits += word_bits(load_word32(block, i));
    return bits;
  }

 private:
  int64_t word_bits(uint32_t word) {
    if (word == 0) return 2;
    if ((word & 0xffffff) == 0) return 12;
    for (const uint32_t entry : words_) {
      const uint32_t difference = entry ^ word;
      if (difference == 0) return 6;
      if ((difference & 0xffffff) == 0) return 16;
      if ((difference & 0xffff) == 0) return 24;
    }
    std::copy(words_.begin() + 1, words_.end(), words_.begin());
    words_.back() = word;
    return 34;
  }

  std::array<uint32_t, kDictionaryWords> words_ = {};
};

int64_t most_block_bits(const Settings& settings) { return block_bytes(settings) / 4 * kMaxWordBits; }

}  // namespace

const Codec& codec() {
  static const Codec codec = make_block_codec<Coder>({.summary = "C-Pack: words of memory blocks by a small dictionary",
                                                      .source = "Chen et al.: C-Pack, IEEE TVLSI 18(8), 2010",
                                                      .settings = block_settings({32, 64, 128})},
                                                     most_block_bits, {accounting("cal22", Cal22())});
  return codec;
}

}  // namespace ecmv::codecs::cpack
