// Known sizes and bits of bit-plane compression.
#include "tests/memory_block_claims.h"

using namespace ecmv::tests;

TEST_CASE("bpc codes the known blocks into the known numbers of bits") {
  struct Sizes {
    uint32_t scaled, literal, released;
  };
  const std::map<std::string, Sizes> expected = {
      {"Z", {10, 10, 14}},    {"N1", {19, 46, 46}}, {"N2", {141, 327, 363}}, {"P", {236, 720, 694}},
      {"R", {178, 577, 580}}, {"W", {40, 40, 14}},  {"F", {92, 190, 164}},   {"D", {283, 849, 829}},
      {"L", {39, 66, 54}},    {"M", {38, 40, 36}}};
  for (const auto& [name, sizes] : expected) {
    INFO(name);
    CHECK(block_bits("bpc", known_blocks().at(name)).at(0) == sizes.scaled);
    CHECK(block_bits("bpc", known_blocks().at(name), {{"widths", "literal"}}).at(0) == sizes.literal);
    CHECK(block_bits("bpc", known_blocks().at(name), {}, "cal22").at(0) == sizes.released);
    CHECK(block_bits("bpc", known_blocks().at(name), {}, "stream+raw").at(0) == std::min(sizes.scaled, 256u) + 1);
  }
  CHECK(block_bits("bpc", known_blocks().at("random")).at(0) == 292);
  CHECK(block_bits("bpc", known_blocks().at("random"), {{"widths", "literal"}}).at(0) == 1016);
  const GivenSettings wide = {{"block_bytes", "128"}};
  CHECK(block_bits("bpc", ramp32(1, 1, 32), wide) == std::vector<uint32_t>{19});
  CHECK(block_bits("bpc", ramp32(1000, 4, 32), wide) == std::vector<uint32_t>{39});
  CHECK(block_bits("bpc", Bytes(128), wide) == std::vector<uint32_t>{10});
  // At 128 bytes both widths are the same code.
  CHECK(stored_bits("bpc", awkward_blocks(400, 1), wide) ==
        stored_bits("bpc", awkward_blocks(400, 1), {{"block_bytes", "128"}, {"widths", "literal"}}));
}

TEST_CASE("bpc writes the known bits") {
  CHECK(stored_bits("bpc", known_blocks().at("Z")) == bits("000 01 11111"));
  CHECK(stored_bits("bpc", known_blocks().at("N1")) == bits("001 0001 | 01 11110 | 00000"));
  CHECK(stored_bits("bpc", ramp32(1, 1, 32), {{"block_bytes", "128"}}) == bits("001 0001 | 01 11110 | 00000"));
  CHECK(stored_bits("bpc", known_blocks().at("W")) == bits("1") + field(0x3F800000, 32) + bits("01 11111"));
  CHECK(stored_bits("bpc", known_blocks().at("L")) ==
        bits("011") + field(0x03E8, 16) + bits("01 11100 | 00000 | 00001 | 001"));
  const uint32_t ones = 0xffffffff;
  CHECK(stored_bits("bpc", words32({0, ones, 0, ones, 0, ones, 0, ones})) ==
        bits("000 | 1 1010101 | 01 11101 | 1 0101010"));
  CHECK(block_bits("bpc", words32({ones, 1, ones, 1, ones, 1, ones, 1})).at(0) == 35);
}

TEST_CASE("bpc returns every kind of block") { claim_blocks_round_trip("bpc"); }
