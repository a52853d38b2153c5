// Known codes of the word code of sc2, its bounds and its damage.
#include "codecs/sc2/word_code.h"
#include "tests/memory_block_claims.h"

using namespace ecmv;
using namespace ecmv::tests;

namespace {

const Bytes kTraining = words32({0, 0, 0, 0, 1, 1, 2, 3});
const Bytes kOther = words32({0, 9, 0, 0, 0, 0, 0, 0});

}  // namespace

TEST_CASE("sc2 trained on one block codes it and another into the known bits") {
  const GivenSettings one_block = {{"sample_blocks", "1"}};
  CHECK(block_bits("sc2", kTraining + kOther, one_block) == std::vector<uint32_t>{16, 42});
  CHECK(stored_bits("sc2", kTraining + kOther, one_block) ==
        bits("0000 101 101 110 111") + bits("0 100") + field(9, 32) + bits("000000"));
  const GivenSettings two_words = {{"sample_blocks", "1"}, {"entries", "2"}};
  CHECK(block_bits("sc2", kTraining + kOther, two_words) == std::vector<uint32_t>{76, 41});
  CHECK(stored_bits("sc2", kTraining, two_words) == bits("0000 11 11 10") + field(2, 32) + bits("10") + field(3, 32));
}

TEST_CASE("sc2 codes words that it never saw by its escape") {
  // Trained on zeros only: escape and zero have one bit each.
  CHECK(block_bits("sc2", Bytes(32) + known_blocks().at("random"), {{"sample_blocks", "1"}}) ==
        std::vector<uint32_t>{8, 8 * (1 + 32)});
}

TEST_CASE("sc2 counts its table beside the blocks and inside the stored bytes") {
  const codecs::CodecEntry& entry = *codecs::find_codec("sc2");
  const datasets::Matrix matrix = byte_matrix(kTraining);
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  CHECK(entry.codec->block_sizes(matrix.view(), settings)[0].side_bits == 16 + 5 + 4 * 37);
  CHECK(codecs::encode_matrix(entry, matrix.view(), settings).stored_bytes(backends::Role::table) ==
        (16 + 5 + 4 * 37 + 7) / 8);
}

TEST_CASE("sc2 counted as the released simulator does pays 33 bits for a sampled word or a miss") {
  // Without an escape the four words of the sample have 1, 2, 3 and 3 bits.
  CHECK(block_bits("sc2", kTraining + kTraining + kOther, {{"sample_blocks", "1"}}, "cal22") ==
        std::vector<uint32_t>{264, 4 + 4 + 6, 7 + 33});
}

TEST_CASE("sc2 samples as the released simulator does with sample_blocks=10000") {
  // min(max(10000, blocks / 100), 10^6) blocks cost 33 bits a word. Here all words are one, whose code has one bit.
  const auto sampled = [](size_t blocks) {
    const std::vector<uint32_t> bits =
        block_bits("sc2", Bytes(32 * blocks, std::byte{7}), {{"sample_blocks", "10000"}}, "cal22");
    return std::find_if(bits.begin(), bits.end(), [](uint32_t size) { return size != 8 * 33; }) - bits.begin();
  };
  CHECK(sampled(9999) == 9999);
  CHECK(sampled(10001) == 10000);
  CHECK(sampled(1'000'300) == 10003);
}

TEST_CASE("sc2 lengths keep to 32 bits where Huffman's would not") {
  std::vector<uint64_t> fibonacci = {1, 1};
  while (fibonacci.size() < 40) fibonacci.push_back(fibonacci.end()[-1] + fibonacci.end()[-2]);
  const std::vector<uint8_t> lengths = codecs::sc2::huffman_lengths(fibonacci);
  CHECK(*std::max_element(lengths.begin(), lengths.end()) == 32);
  double kraft = 0;
  for (const uint8_t length : lengths) kraft += std::ldexp(1.0, -length);
  CHECK(kraft <= 1);
  fibonacci.resize(30);
  const std::vector<uint8_t> shorter = codecs::sc2::huffman_lengths(fibonacci);
  CHECK(*std::max_element(shorter.begin(), shorter.end()) == 29);
}

TEST_CASE("sc2 refuses tables that are no prefix code") {
  codecs::modelling::BitWriter table;
  table.put(2, 16);
  for (const uint64_t word : {1, 2}) {  // three codes of one bit: the escape's and two words'
    if (word == 1) table.put(0, 5);
    table.put(0, 5);
    table.put(word, 32);
  }
  CHECK_THROWS_AS(codecs::sc2::WordCode::read(table.finish()), codecs::MalformedStream);
}

TEST_CASE("sc2 returns every kind of block") { claim_blocks_round_trip("sc2"); }
