// sc2: a static Huffman code for the 32-bit words of memory blocks. Blocks spread over a matrix are its sample: the
// most frequent words of the sample get codes, and an escape precedes any other word. The code is stored with the
// matrix and counted; blocks decode alone. Idea: SC2, Arelakis and Stenstrom, ISCA 2014, which trains while a program
// runs.
#include "codecs/compressed_matrix.h"
#include "codecs/modelling/memory_blocks.h"
#include "codecs/sc2/word_code.h"

namespace ecmv::codecs::sc2 {
namespace {

using namespace modelling;

// The released simulator of the MPC paper fixes both numbers and samples at least 10000 blocks. Most of the memory
// images here have fewer, so `sample_blocks` has another default.
constexpr int64_t kSampleDivisor = 100, kMaxSampleBlocks = 1'000'000;
constexpr int kMissBits = 33;  // of the released simulator: a bit and the word

int64_t sample_blocks(datasets::MatrixView matrix, const Settings& settings) {
  const int64_t blocks = block_count(matrix, settings);
  return std::min({blocks, kMaxSampleBlocks, std::max(settings.integer("sample_blocks"), blocks / kSampleDivisor)});
}

// The words of the sampled blocks: those for which wanted(index) is true.
template <class Wanted>
WordCounts count_words(datasets::MatrixView matrix, const Settings& settings, Wanted wanted) {
  WordCounts counts;
  int64_t index = 0;
  for_each_block(matrix.elements, block_bytes(settings), [&](std::span<const std::byte> block) {
    if (!wanted(index++)) return;
    for (size_t i = 0; i < block.size() / 4; ++i) ++counts[load_word32(block, i)];
  });
  return counts;
}

// Takes blocks evenly from the whole matrix, because the first blocks of a memory image all belong to one array.
WordCounts count_sample(datasets::MatrixView matrix, const Settings& settings) {
  const int64_t blocks = block_count(matrix, settings), sampled = sample_blocks(matrix, settings);
  return count_words(matrix, settings, [=](int64_t index) {
    return index * sampled / blocks != (index - 1) * sampled / blocks || index == 0;
  });
}

class Coder : public BlockCoder {
 public:
  explicit Coder(WordCode code) : code_(std::move(code)) {}
  const WordCode& code() const { return code_; }

  void encode(std::span<const std::byte> block, BitWriter& out) const override {
    for (size_t i = 0; i < block.size() / 4; ++i) {
      const uint32_t word = load_word32(block, i);
      const Symbol* const found = code_.find(word);
      const Symbol& symbol = found == nullptr ? code_.escape() : *found;
      out.put(symbol.code, symbol.length);
      if (found == nullptr) out.put(word, 32);
    }
  }

  void decode(BitReader& in, std::span<std::byte> block) const override {
    for (size_t i = 0; i < block.size() / 4; ++i) {
      const Symbol& symbol = code_.read_symbol(in);
      store_word32(block, i, symbol.is_escape ? static_cast<uint32_t>(in.read(32)) : symbol.word);
    }
  }

 private:
  WordCode code_;
};

Coder train(datasets::MatrixView matrix, const Settings& settings) {
  return Coder(WordCode::train(count_sample(matrix, settings), settings.integer("entries")));
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const Coder coder = train(matrix, settings);
  return encode_blocks(matrix, settings, coder, BlockTable{"words", coder.code().write()});
}

void decode(const CompressedView& view, std::span<std::byte> out) {
  decode_blocks(view, Coder(WordCode::read(stored_table(view))), out, kMemoryTable + 1);
}

int64_t max_stored_bytes(datasets::Shape bytes, const Settings& settings) {
  // An escape takes at most 32 bits; the table holds no more words than were sampled.
  const int64_t words = std::min(settings.integer("entries"), (bytes.elements() + block_bytes(settings)) / 4);
  return max_stored_block_bytes(bytes, settings, block_bytes(settings) / 4 * 64, 4 + words * 5);
}

// The released simulator of the MPC paper. The sample is the first blocks, its words cost as much as misses, and the
// Huffman code has no escape, so its streams could not be decoded.
BlockSizes cal22(datasets::MatrixView matrix, const Settings& settings) {
  const int64_t sample = sample_blocks(matrix, settings);
  const FrequentWords frequent = most_frequent(
      count_words(matrix, settings, [=](int64_t index) { return index < sample; }), settings.integer("entries"));
  std::map<uint32_t, uint8_t> lengths;
  if (!frequent.words.empty()) {
    const std::vector<uint8_t> all = huffman_lengths(frequent.counts);
    for (size_t i = 0; i < all.size(); ++i) lengths[frequent.words[i]] = all[i];
  }
  int64_t index = 0;
  BlockSizes sizes = count_bits("cal22", matrix, settings, [&](std::span<const std::byte> block) {
    int64_t bits = 0;
    const bool is_sample = index++ < sample;
    for (size_t i = 0; i < block.size() / 4; ++i) {
      const auto found = is_sample ? lengths.end() : lengths.find(load_word32(block, i));
      bits += found == lengths.end() ? kMissBits : found->second;
    }
    return bits;
  });
  sizes.side_bits = static_cast<int64_t>(frequent.words.size()) * (32 + 5);
  return sizes;
}

std::vector<BlockSizes> block_sizes(datasets::MatrixView matrix, const Settings& settings) {
  const Coder coder = train(matrix, settings);
  std::vector<BlockSizes> sizes = count_stream_bits(matrix, settings, coder, coder.code().table_bits());
  sizes.push_back(cal22(matrix, settings));
  return sizes;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "a static Huffman code for the frequent words of memory blocks",
      .source = "Arelakis, Stenstrom: SC2, ISCA 2014",
      .settings = block_settings(
          {32, 64, 128},
          {number_setting("entries", "words", "the most frequent words, which get codes", 1024, 1, 65535),
           number_setting(
               "sample_blocks", "blocks",
               "blocks, spread evenly, that the code is trained on; at least a hundredth of all, at most a million; "
               "10000 is the rule of the simulator that the accounting cal22 follows",
               1024, 1, kMaxSampleBlocks)}),
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
      .block_sizes = block_sizes,
  };
  return codec;
}

}  // namespace ecmv::codecs::sc2
