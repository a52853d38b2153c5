// Known sizes and bits of base-delta-immediate compression.
#include "tests/memory_block_claims.h"

using namespace ecmv::tests;

TEST_CASE("bdi codes the known blocks into the known numbers of bits") {
  claim_known_bits("bdi", {{"Z", 12},
                           {"N1", 108},
                           {"N2", 172},
                           {"P", 104},
                           {"R", 68},
                           {"W", 68},
                           {"F", 260},
                           {"D", 260},
                           {"L", 108},
                           {"M", 104},
                           {"random", 260}});
  CHECK(block_bits("bdi", ramp32(1, 1, 16), {{"block_bytes", "64"}}) == std::vector<uint32_t>{180});
}

TEST_CASE("bdi counts as others count it") {
  claim_bits_of_others("bdi", "cal22", {{"Z", 12}, {"R", 68}, {"N1", 100}, {"P", 96}, {"F", 156}, {"random", 260}});
  // The article's table, in bytes: zeros 1, repeated 8, base8-delta1 12, base4-delta1 12, raw 32.
  claim_bits_of_others("bdi", "pact12", {{"Z", 1}, {"R", 8}, {"P", 12}, {"N1", 12}, {"random", 32}}, 8);
  CHECK(block_bits("bdi", ramp32(1, 1, 16), {{"block_bytes", "64"}}, "pact12") == std::vector<uint32_t>{160});
}

TEST_CASE("bdi takes differences from the released simulator's side: the base less the element") {
  // The simulator itself gave the sizes. It takes base - element, reads a difference that is not negative as
  // unsigned and any other as signed, and never fits -1: so the limits are not symmetric.
  const auto cal22 = [](const Bytes& block) { return block_bits("bdi", block, {}, "cal22").at(0); };
  CHECK(cal22(from_hex("00000010c8000010c80000100000001000000010c80000100000001000000010")) == 156);
  const auto off_base32 = [](int64_t difference) {
    std::vector<uint32_t> words(8, 0x10000000);
    words[3] = static_cast<uint32_t>(0x10000000 - difference);
    return words32(words);
  };
  const auto off_base64 = [](int64_t difference) {
    const uint64_t base = 0x0123456789ABCDEF;
    return words64({base, base, base - static_cast<uint64_t>(difference), base});
  };
  struct Sizes {
    int64_t difference;
    uint32_t base4, base8;
  };
  for (const Sizes& sizes : {Sizes{255, 100, 96},
                             {256, 156, 120},
                             {-128, 100, 96},
                             {-129, 156, 120},
                             {-1, 156, 260},
                             {-2, 100, 96},
                             {65535, 156, 120},
                             {65536, 156, 168},
                             {-32768, 156, 120},
                             {-32769, 220, 168},
                             {INT32_MIN, 212, 168},
                             {int64_t{INT32_MIN} - 1, 212, 260}}) {
    INFO(sizes.difference);
    CHECK(cal22(off_base32(sizes.difference)) == sizes.base4);
    CHECK(cal22(off_base64(sizes.difference)) == sizes.base8);
  }
}

TEST_CASE("bdi takes each pair of widths where it is the shortest") {
  const auto wide = [](uint64_t step) {
    return words64({0x0123456789ABCDEF, 0x0123456789ABCDEF + step, 0x0123456789ABCDEF - step, 7});
  };
  const std::vector<std::tuple<Bytes, uint32_t, uint32_t>> blocks = {
      {wide(100), 104, 2}, {wide(30000), 136, 3}, {wide(2000000000), 200, 4}, {ramp32(0x10000000, 1000, 8), 172, 6}};
  for (const auto& [block, size, tag] : blocks) {
    CHECK(block_bits("bdi", block).at(0) == size);
    CHECK(stored_bits("bdi", block).substr(0, 4) == field(tag, 4));
  }
  CHECK(block_bits("bdi", words64({0x0123456789ABCDEF, 0x0123456789ABCDEF + 100, 1, 2, 3, 4, 5, 6}),
                   {{"block_bytes", "64"}}) == std::vector<uint32_t>{140});
  CHECK(block_bits("bdi", words64({0x0123456789ABCDEF, 0x0123456789ABCDEF + 30000, 1, 2, 3, 4, 5, 6}),
                   {{"block_bytes", "64"}}) == std::vector<uint32_t>{204});
}

TEST_CASE("bdi takes the known bits for every encoding of 64 bytes") {
  const GivenSettings wide = {{"block_bytes", "64"}};
  const uint64_t base = 0x0123456789ABCDEF;
  std::vector<uint16_t> shorts(32, 0x8000);
  shorts[5] = 0x8010;
  const std::vector<std::pair<Bytes, uint32_t>> blocks = {{Bytes(64), 12},
                                                          {words64(std::vector<uint64_t>(8, base)), 68},
                                                          {words64({base, base + 100, 1, 2, 3, 4, 5, 6}), 140},
                                                          {words64({base, base + 30000, 1, 2, 3, 4, 5, 6}), 204},
                                                          {words64({base, base + 2000000000, 1, 2, 3, 4, 5, 6}), 332},
                                                          {ramp32(1, 1, 16), 180},
                                                          {ramp32(0x10000000, 1000, 16), 308},
                                                          {words16(shorts), 308},
                                                          {known_blocks().at("random") + known_blocks().at("N2"), 516}};
  for (const auto& [block, size] : blocks) CHECK(block_bits("bdi", block, wide) == std::vector<uint32_t>{size});
}

TEST_CASE("bdi writes the known bits") {
  CHECK(stored_bits("bdi", known_blocks().at("Z")) == bits("0000 00000000"));
  std::string immediates = bits("0101 00000000") + field(0, 32);
  for (uint64_t i = 1; i <= 8; ++i) immediates += field(i, 8);
  CHECK(stored_bits("bdi", known_blocks().at("N1")) == immediates);
  CHECK(stored_bits("bdi", known_blocks().at("P")) == bits("0010 1011") + field(0x00007F1234560010, 64) +
                                                          field(0x00, 8) + field(0x05, 8) + field(0x38, 8) +
                                                          field(0x6F, 8));
  std::vector<uint16_t> shorts;
  std::string base2 = bits("0111 1111111111111111") + field(0x8000, 16);
  for (uint16_t i = 0; i < 16; ++i) {
    shorts.push_back(static_cast<uint16_t>(0x8000 + i));
    base2 += field(i, 8);
  }
  CHECK(base2.size() == 164);
  CHECK(stored_bits("bdi", words16(shorts)) == base2);
  std::string base4 = bits("0110 11111111") + field(0x10000000, 32);
  for (uint64_t i = 0; i < 8; ++i) base4 += field(1000 * i, 16);
  CHECK(base4.size() == 172);
  CHECK(stored_bits("bdi", ramp32(0x10000000, 1000, 8)) == base4);
}

TEST_CASE("bdi returns every kind of block") { claim_blocks_round_trip("bdi"); }
