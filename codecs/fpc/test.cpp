// Known sizes and bits of frequent pattern compression.
#include "tests/memory_block_claims.h"

using namespace ecmv::tests;

TEST_CASE("fpc codes the known blocks into the known numbers of bits") {
  const KnownBits expected = {{"Z", 6},   {"N1", 60}, {"N2", 95}, {"P", 175}, {"R", 280},     {"W", 152},
                              {"F", 152}, {"D", 235}, {"L", 152}, {"M", 17},  {"random", 280}};
  claim_known_bits("fpc", expected);
  claim_bits_of_others("fpc", "cal22", expected);  // runs are short at 32 bytes
  CHECK(block_bits("fpc", ramp32(1, 1, 16), {{"block_bytes", "64"}}) == std::vector<uint32_t>{148});
  CHECK(block_bits("fpc", Bytes(128), {{"block_bytes", "128"}}) == std::vector<uint32_t>{24});
  CHECK(block_bits("fpc", Bytes(128), {{"block_bytes", "128"}}, "cal22") == std::vector<uint32_t>{6});
}

TEST_CASE("fpc writes the known bits") {
  CHECK(stored_bits("fpc", known_blocks().at("Z")) == bits("000 111"));
  CHECK(stored_bits("fpc", known_blocks().at("M")) == bits("010 01000000 000 110"));
  CHECK(stored_bits("fpc", known_blocks().at("N1")) ==
        bits("001 0001 001 0010 001 0011 001 0100 001 0101 001 0110 001 0111 010 00001000"));
  const std::string every_pattern = bits("000 001") + bits("100") + field(0x7FFF, 16) + bits("101 00000101 00000011") +
                                    bits("110") + field(0x41, 8) + bits("010") + field(0x80, 8) + bits("111") +
                                    field(0x12345678, 32) + bits("000 000");
  CHECK(every_pattern.size() == 107);
  CHECK(stored_bits("fpc", words32({0, 0, 0x7FFF0000, 0x00050003, 0x41414141, 0xFFFFFF80, 0x12345678, 0})) ==
        every_pattern);
}

TEST_CASE("fpc returns every kind of block") { claim_blocks_round_trip("fpc"); }
