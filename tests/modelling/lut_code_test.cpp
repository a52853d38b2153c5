// Claims about hierarchical look-up tables: an accepted table is a prefix code, and readers that look only at the first
// bits of a code see the same code.
#include "codecs/modelling/lut_code.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "codecs/codec.h"

using namespace ecmv::codecs;
using namespace ecmv::codecs::modelling;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

// Symbol 5: 0; 6: 10 bits, 1000000000; 7 and 8: 13 bits, 1000000001000 and ...001. All else is free.
std::vector<std::byte> tables() {
  LutCode code;
  code.lengths.resize(9);
  code.codes.resize(9);
  code.lengths[5] = 1, code.codes[5] = 0;
  code.lengths[6] = 10, code.codes[6] = 0b1000000000;
  code.lengths[7] = 13, code.codes[7] = 0b1000000001000;
  code.lengths[8] = 13, code.codes[8] = 0b1000000001001;
  return make_luts(code, 9);
}

// The symbol that 4 bytes begin with.
uint32_t first_of(const std::vector<std::byte>& luts, uint32_t bits) {
  const std::vector<std::byte> bytes = {std::byte(bits >> 24), std::byte(bits >> 16 & 255), std::byte(bits >> 8 & 255),
                                        std::byte(bits & 255)};
  const LutReader codes(luts);
  BitReader reader(bytes);
  return codes.take(reader, 32);
}

constexpr size_t kSecond = 256, kLengths = 512;  // rows: the table after the prefix 10000000, and the lengths

}  // namespace

TEST_CASE("codes of every length are read through the tables") {
  const std::vector<std::byte> luts = tables();
  REQUIRE(luts.size() == 3 * 256);
  CHECK(first_of(luts, 0x7fffffff) == 5);
  CHECK(first_of(luts, 0x803fffff) == 6);
  CHECK(first_of(luts, 0x8047ffff) == 7);
  CHECK(first_of(luts, 0x80480000) == 8);
  CHECK_THROWS_AS(first_of(luts, 0xffffffff), MalformedStream);
}

TEST_CASE("an entry that only some of a code's windows lead to is no code") {
  std::vector<std::byte> luts = tables();
  luts[kSecond + 7] = std::byte{5};  // in the midst of 6's
  CHECK(first_of(luts, 0x7fffffff) == 5);
  CHECK_THROWS_AS(first_of(luts, 0x8001ffff), MalformedStream);
}

TEST_CASE("tables in which the first bits name another symbol than all bits are refused") {
  // The bits 1000000001 and zeros lead to the first entry after them.
  for (const int symbol : {5, 6}) {
    std::vector<std::byte> luts = tables();
    luts[kSecond + 0x40] = std::byte(symbol);
    CHECK_THROWS_MATCHES(LutReader(luts), MalformedStream, MessageMatches(ContainsSubstring("hide a code")));
  }
  // A free entry is 0, which is a symbol if 0 has a code.
  std::vector<std::byte> luts = tables();
  luts[kLengths + 0] = std::byte{11};
  CHECK(first_of(luts, 0x80480000) == 8);
  std::fill_n(luts.begin() + kSecond + 0x40, 8, std::byte{0});
  CHECK_THROWS_MATCHES(LutReader(luts), MalformedStream, MessageMatches(ContainsSubstring("hide a code")));
  luts[kLengths + 0] = std::byte{13};  // longer than what tells 8's codes from these
  CHECK(first_of(luts, 0x80480000) == 8);
}

TEST_CASE("tables whose pointers lead outside or in circles are refused") {
  for (const auto& [at, entry, sentence] :
       {std::tuple(256 + 3, 255, "different numbers of bits"), {0x81, 254, "outside"}, {7, 240, "outside"}}) {
    std::vector<std::byte> luts = tables();
    luts[static_cast<size_t>(at)] = std::byte(entry);
    CHECK_THROWS_MATCHES(LutReader(luts), MalformedStream, MessageMatches(ContainsSubstring(sentence)));
  }
  // Several prefixes may lead to one table, but not so many that walking through all of them takes too long.
  std::vector<std::byte> shared = tables();
  shared[0x81] = std::byte{255};
  CHECK(first_of(shared, 0x8148ffff) == 8);
  std::vector<std::byte> many(5 * 256, std::byte{1});
  for (size_t table = 0; table < 3; ++table)
    std::fill_n(many.begin() + static_cast<std::ptrdiff_t>(table * 256), 256, std::byte(255 - table));
  CHECK_THROWS_MATCHES(LutReader(many), MalformedStream, MessageMatches(ContainsSubstring("more codes than")));
}
