// Known sizes and bits of C-Pack.
#include "tests/memory_block_claims.h"

using namespace ecmv::tests;

TEST_CASE("cpack codes the known blocks into the known numbers of bits") {
  claim_known_bits("cpack", {{"Z", 16},
                             {"N1", 96},
                             {"N2", 150},
                             {"P", 126},
                             {"R", 104},
                             {"W", 76},
                             {"F", 216},
                             {"D", 152},
                             {"L", 154},
                             {"M", 26},
                             {"random", 272}});
  CHECK(block_bits("cpack", ramp32(1, 1, 16), {{"block_bytes", "64"}}) == std::vector<uint32_t>{192});
}

TEST_CASE("cpack counts as the released simulator does, history included") {
  claim_bits_of_others("cpack", "cal22", {{"Z", 16}, {"N1", 272}, {"P", 184}, {"F", 180}, {"random", 272}});
  // The words of the block before are still there.
  CHECK(block_bits("cpack", known_blocks().at("N1") + known_blocks().at("N1"), {}, "cal22") ==
        std::vector<uint32_t>{272, 48});
  CHECK(block_bits("cpack", known_blocks().at("N1") + known_blocks().at("N1")) == std::vector<uint32_t>{96, 96});
}

TEST_CASE("cpack writes the known bits") {
  CHECK(stored_bits("cpack", known_blocks().at("Z")) == std::string(16, '0'));
  CHECK(stored_bits("cpack", known_blocks().at("M")) == bits("1101 01000000") + std::string(14, '0'));
  CHECK(stored_bits("cpack", known_blocks().at("D")) ==
        bits("01") + field(0x12345678, 32) + bits("10 0000") + bits("1110 0000") + field(0x99, 8) + bits("1100 0000") +
            field(0xABCD, 16) + bits("1101") + field(0xFF, 8) + bits("00") + bits("01") + field(0xDEADBEEF, 32) +
            bits("1100 0000") + field(0x9999, 16));
}

TEST_CASE("cpack forgets the oldest word of a block after sixteen") {
  // 17 different words, then the second and the first again: index 0 and a new word.
  std::vector<uint32_t> words;
  for (uint32_t i = 0; i < 17; ++i) words.push_back((i + 1) << 24 | 0x10000);
  words.push_back(words[1]);
  words.push_back(words[0]);
  words.resize(32);
  CHECK(block_bits("cpack", words32(words), {{"block_bytes", "128"}}) ==
        std::vector<uint32_t>{17 * 34 + 6 + 34 + 13 * 2});
}

TEST_CASE("cpack returns every kind of block") { claim_blocks_round_trip("cpack"); }
