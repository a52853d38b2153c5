// Tests of f8 in quad_huffman beyond the generic conformance tests: every pattern with every table on every instruction
// set, sizes, where signs and mantissas lie, and streams that lie.
#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/format/raw_planes.h"
#include "codecs/quad_huffman/tests/test_streams.h"
#include "codecs/registry.h"
#include "tests/test_matrices.h"

namespace {

using namespace ecmv;
using namespace ecmv::codecs;
using namespace ecmv::codecs::quad_huffman;
namespace format = ecmv::codecs::quad_huffman;

const CodecEntry& f8_entry() { return quad_huffman_entry(); }

datasets::Matrix f8_of(datasets::Shape shape, const std::function<uint64_t(int64_t)>& bits) {
  return tests::make_typed_matrix("f8", datasets::ElementType::f8_e4m3, shape, bits);
}

}  // namespace

TEST_CASE("quad_huffman keeps every pattern of f8 with every table", "[quad_huffman]") {
  std::mt19937 random(7);
  const auto pattern = [](int64_t i) { return static_cast<uint64_t>(i * 40503 >> 3 & 255); };
  std::vector<std::pair<datasets::Matrix, CompressedMatrix>> cases;
  const auto add = [&](datasets::Matrix matrix, const Given& given) {
    CompressedMatrix compressed = coded(matrix, given);
    cases.push_back({std::move(matrix), std::move(compressed)});
  };
  for (int table_bits = format::kLeastTableBits; table_bits <= format::kMostTableBits; ++table_bits) {
    const Given given = {{"table_bits", std::to_string(table_bits)}, {"tile_cols", "256"}};
    add(tests::f8_matrix({37, 389}), given);
    add(f8_of({33, 1027}, pattern), given);  // most symbols have no code
  }
  for (const int64_t cols : {1, 2, 3, 4, 5, 7, 31, 32, 33, 127, 128, 129, 512, 1025, 2047, 2049})
    add(tests::f8_matrix({3, cols}), {{"table_bits", "9"}, {"tile_cols", "2048"}});
  add(f8_of({131, 501}, [&](int64_t) { return (random() & 0x87) | 7 << 3; }), {});  // one exponent
  add(f8_of({131, 501}, [&](int64_t) { return random() & 0x87; }), {});             // zero and subnormal numbers
  add(f8_of({40, 300}, [&](int64_t i) { return (random() & 0x87) | (i % 200 == 0 ? random() & 0x78 : 9 << 3); }), {});
  add(f8_of({64, 300}, [](int64_t) { return 0; }), {});
  add(f8_of({0, 64}, pattern), {});
  add(f8_of({5, 0}, pattern), {});
  for (const auto& [matrix, compressed] : cases) {
    INFO(compressed.settings.to_string());
    CHECK(decoded(compressed) == matrix.elements);
    CHECK(compressed.stored_bytes() <= f8_entry().codec->max_stored_bytes(matrix.shape, compressed.settings));
    check_decoders(compressed, matrix);
  }
}

TEST_CASE("quad_huffman's f8 takes a sixth of a bit more than the entropy of exponents", "[quad_huffman]") {
  const datasets::Matrix matrix = tests::f8_matrix({512, 8192});
  std::array<double, 16> counts{};
  for (const std::byte element : matrix.elements) ++counts[std::to_integer<size_t>(element) >> 3 & 15];
  double entropy = 4;
  for (const double count : counts)
    if (const double share = count / static_cast<double>(matrix.elements.size()); share > 0)
      entropy -= share * std::log2(share);
  CHECK(bits_of(coded(matrix, {{"table_bits", "12"}, {"tile_cols", "2048"}})) < entropy + 0.17);
  CHECK(bits_of(coded(matrix, {{"tile_cols", "2048"}})) < entropy + 0.17);
  // A single exponent takes a bit a quad, and five raw bits.
  const datasets::Matrix constant = f8_of({256, 2048}, [](int64_t i) { return (i & 0x87) | 0x38; });
  CHECK(bits_of(coded(constant, {{"tile_cols", "2048"}})) < 5.29);
}

TEST_CASE("quad_huffman stores f8 as it is where codes would take more", "[quad_huffman]") {
  std::mt19937 random(2);
  for (const datasets::Shape shape : {datasets::Shape{64, 64}, {1, 3}, {1000, 1000}}) {
    const datasets::Matrix matrix = f8_of(shape, [&](int64_t) { return random() & 255; });
    const CompressedMatrix plain = encode_matrix(f8_entry(), matrix.view(), settings_of({}));
    CHECK(plain.stored_bytes() == shape.elements() + format::kPlainHeaderBytes);
    CHECK(decoded(plain) == matrix.elements);
    check_decoders(plain, matrix);
  }
}

TEST_CASE("quad_huffman has sign and mantissa of f8 where bf16 has its own once a word is rotated", "[quad_huffman]") {
  std::mt19937 random(4);
  uint8_t signs[32];
  for (uint8_t& sign : signs) sign = static_cast<uint8_t>(random() & 0x87);
  uint32_t words[4];
  format::pack_f8(signs, words);
  for (int col = 0; col < 32; ++col) {
    CHECK(format::f8_sign(words, col) == signs[col]);
    const uint32_t rotated = std::rotr(words[col / 8], 4 * (col % 8 / 2)), half = rotated >> (16 * (col % 2)) & 0x8070;
    CHECK(half == ((signs[col] & 0x80u) << 8 | (signs[col] & 7u) << 4));
  }
  // Column 5 has its mantissa in nibble (1 + 2 + 4) % 8 and its sign in nibble (3 + 2 + 4) % 8.
  std::fill(signs, signs + 32, uint8_t{0});
  signs[5] = 0x87;
  format::pack_f8(signs, words);
  CHECK(words[0] == 0x70000080u);
}

TEST_CASE("quad_huffman refuses settings that f8 has not", "[quad_huffman]") {
  const datasets::Matrix matrix = tests::f8_matrix({4, 64});
  const auto refused = [&](const Given& given) {
    return !f8_entry().codec->refuses(matrix.view(), settings_of(given)).empty();
  };
  CHECK(refused({{"raw_bits", "4"}}));
  CHECK(refused({{"cells", "folded"}}));
  CHECK_FALSE(refused({{"symbol_cols", "0"}, {"cells", "contiguous"}}));
  CHECK(decoded(coded(matrix, {{"symbol_cols", "0"}, {"optimise", "speed"}})) == matrix.elements);
}

TEST_CASE("quad_huffman refuses f8 streams that lead outside", "[quad_huffman]") {
  const CompressedMatrix good = coded(tests::f8_matrix({40, 300}), {{"table_bits", "8"}});
  REQUIRE(good.sections[format::kPatches].bytes.size() > 100);
  const auto refused = [&](int section, size_t at, int value) {
    CompressedMatrix bad = good;
    bad.sections[section].bytes[at] = std::byte(value);
    CHECK_THROWS_AS(decoded(bad), MalformedStream);
  };
  refused(format::kHeader, 0, 9);     // raw bits of bf16
  refused(format::kHeader, 0, 4);     // raw bits of int8
  refused(format::kHeader, 0, 68);    // none of an exponent
  refused(format::kHeader, 2, 16);    // no exponent
  refused(format::kHeader, 5, 1);     // 2 columns
  refused(format::kHeader, 6, 0);     // a stand-in that is larger than the largest
  refused(format::kHeader, 6, 17);    // or more than its cells have
  refused(format::kPatches, 2, 16);   // an exponent of five bits
  refused(format::kPatches, 3, 0);    // replaces an exponent that is not coded
  refused(format::kPatches, 1, 255);  // a column past the last
  const std::vector<std::byte>& patches = good.sections[format::kPatches].bytes;
  refused(format::kPatches, patches.size() - 1, std::to_integer<int>(patches.back()) ^ 0x80);  // not the element's sign
  for (const auto type : {datasets::ElementType::i8, datasets::ElementType::f8_e5m2}) {
    CompressedMatrix other = good;
    other.type = type;
    CHECK_THROWS_AS(decoded(other), MalformedStream);
  }
  CompressedMatrix integers = coded(tests::gaussian_matrix({40, 300}, 4), {{"raw_bits", "4"}, {"cells", "contiguous"}});
  integers.type = datasets::ElementType::f8_e4m3;
  CHECK_THROWS_AS(decoded(integers), MalformedStream);
}
