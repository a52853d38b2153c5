// Claims about stored integers: their bytes, and that they come back.
#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <limits>
#include <vector>

#include "codecs/modelling/bytes.h"

using namespace ecmv::codecs::modelling;

namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::initializer_list<int> values) {
  Bytes out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

template <class Integer>
void check_type() {
  for (const Integer value : {std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max(), Integer{0},
                              static_cast<Integer>(-2), static_cast<Integer>(0x0102030405060708)}) {
    Bytes stored = bytes({9});
    append<Integer>(stored, value);
    REQUIRE(stored.size() == 1 + sizeof(Integer));
    CHECK(load<Integer>(stored, 1) == value);
  }
}

}  // namespace

TEST_CASE("integers are stored with their lowest byte first") {
  Bytes stored;
  append<uint32_t>(stored, 0x04030201);
  append<int16_t>(stored, -2);
  append<uint8_t>(stored, 255);
  append_word(stored, 3, 0x99070605);
  append_bytes(stored, bytes({8, 9}));
  CHECK(stored == bytes({1, 2, 3, 4, 0xfe, 0xff, 0xff, 5, 6, 7, 8, 9}));
  CHECK(load<int16_t>(stored, 4) == -2);
  CHECK(load<int8_t>(stored, 6) == -1);
  CHECK(load<uint8_t>(stored, 6) == 255);
  CHECK(load_word(stored, 7, 5) == 0x0908070605);
  CHECK(load_word32(stored, 2) == 0x09080706);
  store_word32(stored, 1, 0xa3a2a1a0);
  store_word(stored, 1, 2, 0xffffb1b0);
  CHECK(stored == bytes({1, 0xb0, 0xb1, 4, 0xa0, 0xa1, 0xa2, 0xa3, 6, 7, 8, 9}));
}

TEST_CASE("integers of every type come back") {
  check_type<uint8_t>();
  check_type<int8_t>();
  check_type<uint16_t>();
  check_type<int16_t>();
  check_type<uint32_t>();
  check_type<int32_t>();
  check_type<uint64_t>();
  check_type<int64_t>();
}
