// The bit writer's bytes, exactly, and a reader that never passes the end.
#include "codecs/modelling/bit_io.h"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

using ecmv::codecs::MalformedStream;
using ecmv::codecs::modelling::BitReader;
using ecmv::codecs::modelling::BitWriter;

TEST_CASE("bits are written most significant first and the last byte is filled with zeros") {
  BitWriter writer;
  writer.put(0b1, 1);
  writer.put(0b01, 2);
  writer.put(0xffff0, 8);  // only the low eight bits count
  CHECK(writer.bit_count() == 11);
  CHECK(writer.finish() == std::vector<std::byte>{std::byte{0b10111110}, std::byte{0b00000000}});
  CHECK(writer.bit_count() == 0);
  CHECK(writer.finish().empty());
}

TEST_CASE("what was written is read back, for widths 0 to 56") {
  std::mt19937_64 random(3);
  BitWriter writer;
  std::vector<std::pair<uint64_t, int>> written;
  for (int i = 0; i < 5000; ++i) {
    const int bits = static_cast<int>(random() % 57);
    const uint64_t value = random() & ((uint64_t{1} << bits) - 1);
    writer.put(value, bits);
    written.push_back({value, bits});
  }
  const std::vector<std::byte> bytes = writer.finish();
  BitReader reader(bytes);
  for (const auto& [value, bits] : written) REQUIRE(reader.read(bits) == value);
  CHECK(reader.left() < 8);
}

TEST_CASE("a reader shows zeros past the end and refuses to consume them") {
  const std::vector<std::byte> bytes{std::byte{0xff}};
  BitReader reader(bytes, 4);
  CHECK(reader.peek(8) == 0xf0);
  CHECK(reader.left() == 4);
  CHECK_THROWS_AS(reader.read(5), MalformedStream);
  CHECK(reader.position() == 4);
  CHECK(reader.read(4) == 0xf);
  CHECK(reader.peek(56) == 0);
  CHECK_THROWS_AS(reader.skip(1), MalformedStream);
  CHECK_THROWS_AS(reader.skip(-1), MalformedStream);
  CHECK_THROWS_AS(reader.seek(9), MalformedStream);
  CHECK_THROWS_AS(BitReader({}, 1), MalformedStream);
  CHECK(BitReader({}).peek(3) == 0);
}
