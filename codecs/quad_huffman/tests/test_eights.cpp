// Tests of symbols of eight exponents beyond the generic conformance tests: every pattern with every table on every
// instruction set, where bits lie, which exponents have patches, and streams that lie.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/format/raw_planes.h"
#include "codecs/quad_huffman/format/stored.h"
#include "codecs/quad_huffman/tests/test_streams.h"
#include "codecs/registry.h"
#include "tests/test_matrices.h"

namespace {

using namespace ecmv;
using namespace ecmv::codecs;
using namespace ecmv::codecs::quad_huffman;
namespace format = ecmv::codecs::quad_huffman;

using Bits = std::function<uint64_t(int64_t)>;
datasets::Matrix matrix_of(datasets::ElementType type, datasets::Shape shape, const Bits& bits) {
  return tests::make_typed_matrix("eights", type, shape, bits);
}
CompressedMatrix eights(const datasets::Matrix& matrix, Given given = {}) {
  given.insert_or_assign("symbol_cols", std::string("8"));
  return coded(matrix, given);
}
// A patch's exponent and its substitute.
std::vector<std::pair<int, int>> patches_of(const CompressedMatrix& compressed) {
  const CompressedView view = compressed.view();
  const Stored stored = open_stored(view);
  std::vector<std::pair<int, int>> patches;
  for (int64_t i = 0; i < stored.first_patch(stored.row_groups * stored.column_tiles); ++i)
    patches.emplace_back(stored.float_patch(i).exponent, stored.float_patch(i).substitute);
  return patches;
}
int lowest_of(const CompressedMatrix& compressed) { return open_stored(compressed.view()).lowest; }

}  // namespace

TEST_CASE("quad_huffman keeps every pattern in symbols of eight exponents with every table", "[quad_huffman]") {
  const auto type = GENERATE(datasets::ElementType::bf16, datasets::ElementType::f8_e4m3);
  const bool f8 = type == datasets::ElementType::f8_e4m3;
  const uint64_t sign = f8 ? 0x87 : 0x807F;
  const int mantissa_bits = f8 ? 3 : 7;
  std::mt19937 random(11);
  const auto usual = [&](datasets::Shape shape) { return f8 ? tests::f8_matrix(shape) : tests::bf16_matrix(shape); };
  const auto pattern = [&](int64_t i) { return static_cast<uint64_t>(i * 40503 >> 3) & (f8 ? 0xFF : 0xFFFF); };
  const auto with_exponent = [&](int exponent) {
    return [&random, sign, mantissa_bits, exponent](int64_t) {
      return (random() & sign) | static_cast<uint64_t>(exponent) << mantissa_bits;
    };
  };
  std::vector<std::pair<datasets::Matrix, CompressedMatrix>> cases;
  const auto add = [&](const datasets::Matrix& matrix, const Given& given) {
    for (const char* layout : {"rows", "fragments"}) {
      Given all = given;
      all.insert_or_assign("layout", std::string(layout));
      cases.emplace_back(matrix, eights(matrix, all));
    }
  };
  for (int table_bits = format::kLeastTableBits; table_bits <= format::kMostTableBits; ++table_bits) {
    const Given given = {{"table_bits", std::to_string(table_bits)}, {"tile_cols", "256"}};
    add(usual({37, 389}), given);
    add(matrix_of(type, {33, 1027}, pattern), given);  // most symbols have no code
  }
  for (const int64_t cols : {1, 3, 7, 8, 9, 31, 33, 255, 256, 257, 1025, 2049})
    add(usual({3, cols}), {{"table_bits", "9"}, {"tile_cols", "2048"}});
  add(matrix_of(type, {131, 501}, with_exponent(f8 ? 7 : 121)), {});  // one exponent
  add(matrix_of(type, {131, 501}, with_exponent(0)), {});             // zero and subnormal numbers
  add(matrix_of(type, {64, 300}, [](int64_t) { return 0; }), {});
  add(matrix_of(type, {40, 300}, with_exponent(f8 ? 15 : 255)), {});
  add(matrix_of(type, {0, 64}, pattern), {});
  add(matrix_of(type, {5, 0}, pattern), {});
  for (const auto& [matrix, compressed] : cases) {
    INFO(compressed.settings.to_string());
    CHECK(decoded(compressed) == matrix.elements);
    CHECK(compressed.stored_bytes() <=
          quad_huffman_entry().codec->max_stored_bytes(
              {matrix.shape.rows, matrix.shape.cols * datasets::element_bytes(type)}, compressed.settings));
    check_decoders(compressed, matrix);
  }
}

TEST_CASE("quad_huffman has what makes a pair of eight exponents at one distance from its place in a bf16",
          "[quad_huffman]") {
  std::mt19937 random(4);
  for (const bool f8 : {false, true}) {
    uint8_t signs[32], lows[32];
    for (int col = 0; col < 32; ++col)
      signs[col] = static_cast<uint8_t>(random() & (f8 ? 0x87 : 0xFF)), lows[col] = static_cast<uint8_t>(random() & 3);
    uint32_t words[format::kMostPlaneWords], raw[2], quads[8];
    format::pack_eights_signs(f8, signs, words);
    format::pack_eights(lows, raw);
    format::unpack_eights(raw, quads);
    const int form = format::float_form(8, f8);
    for (int col = 0; col < 32; ++col) {
      CHECK(format::eights_sign(f8, words, col) == signs[col]);
      CHECK((quads[col / 4] >> (8 * (col % 4)) & 0xFF) == lows[col]);
      // The pair is rotated: the first column is in the lower half.
      const int rotation = format::eights_rotation(col % 8 / 2), half = 16 * (col % 2);
      const uint32_t bits = std::rotr(words[f8 ? col / 8 : col / 4], rotation) >> half & (f8 ? 0x8070 : 0x807F);
      CHECK(bits == ((signs[col] & 0x80u) << 8 | (f8 ? (signs[col] & 7u) << 4 : signs[col] & 0x7Fu)));
      const uint32_t two = std::rotr(raw[col / 16], rotation + (col / 8 % 2 != 0 ? 2 : 0)) >> half >> 7 & 3;
      CHECK(two == lows[col]);
      CHECK((std::rotr(3u << format::high_shift(8, form, col % 8), rotation) >> half & 0xFFFF) == 3u << 9);
    }
  }
}

TEST_CASE("quad_huffman has patches in symbols of eight for what products cannot make", "[quad_huffman]") {
  std::mt19937 random(5);
  const auto bf16 = [&](const Bits& exponent) {
    return matrix_of(datasets::ElementType::bf16, {64, 512},
                     [&](int64_t i) { return (random() & 0x807F) | exponent(i) << 7; });
  };
  // Zeros have patches, though the substitute of an exponent of 0 may be the lowest exponent.
  const CompressedMatrix zeros = eights(bf16([](int64_t i) { return i % 40 == 0 ? 0 : 118 + i % 4; }));
  const auto patches = patches_of(zeros);
  CHECK(std::ranges::count(patches, 0, [](const auto& patch) { return patch.first; }) == (64 * 512 + 39) / 40);
  const datasets::Matrix f8 = matrix_of(datasets::ElementType::f8_e4m3, {64, 512}, [&](int64_t i) {
    return (random() & 0x87) | static_cast<uint64_t>(i % 4) << 3;
  });
  const CompressedMatrix low = eights(f8);
  CHECK(lowest_of(low) == 0);
  CHECK(std::ranges::count(patches_of(low), std::pair{0, 0}) == 64 * 512 / 4);
  // Any lowest exponent will do where no other exponents hinder it. All of these lie in cells that begin at 117.
  CHECK(lowest_of(eights(bf16([](int64_t i) { return 117 + i % 4; }))) % 4 == 1);
  // Exponents of 1 to 15 and of 255 are multiplied as they are.
  for (const uint64_t other : {1, 15, 255}) {
    INFO(other);
    const CompressedMatrix compressed = eights(bf16([&](int64_t i) { return i == 999 ? other : 117 + i % 4; }));
    CHECK(lowest_of(compressed) % 16 == 0);
    CHECK(lowest_of(compressed) >= format::kLeastEightsLowest);
  }
  for (const uint64_t other : {16, 254}) {
    INFO(other);
    CHECK(lowest_of(eights(bf16([&](int64_t i) { return i == 999 ? other : 117 + i % 4; }))) % 4 == 1);
  }
  // Their bases, and the bits lost to them.
  CHECK(format::eights_base(format::float_form(8, false), 117) == 112);
  CHECK(format::eights_base(format::float_form(8, true), 1) == 112);
}

TEST_CASE("quad_huffman's symbols of eight exponents take a sixth of a bit more than those of four", "[quad_huffman]") {
  for (const datasets::Matrix& matrix : {tests::f8_matrix({512, 8192}), tests::bf16_matrix({512, 8192})}) {
    const Given given = {{"table_bits", "12"}, {"tile_cols", "2048"}};
    CHECK(bits_of(eights(matrix, given)) < bits_of(coded(matrix, given)) + 0.17);
  }
}

TEST_CASE("quad_huffman chooses symbols of exponents that the layout's kernels multiply", "[quad_huffman]") {
  const datasets::Matrix matrix = tests::bf16_matrix({64, 2048});
  for (const char* aim : {"size", "speed"}) {
    const auto chosen = [&](const char* layout) {
      const CompressedMatrix compressed = coded(matrix, {{"symbol_cols", "0"}, {"optimise", aim}, {"layout", layout}});
      return open_stored(compressed.view()).symbol_cols;
    };
    INFO(aim);
    CHECK(chosen("rows") == 4);
  }
}

TEST_CASE("quad_huffman refuses streams of symbols of eight exponents that lead outside", "[quad_huffman]") {
  const auto refused = [](const CompressedMatrix& good, int section, size_t at, int value) {
    CompressedMatrix bad = good;
    bad.sections[static_cast<size_t>(section)].bytes[at] = std::byte(value);
    CHECK_THROWS_AS(decoded(bad), MalformedStream);
  };
  const CompressedMatrix f8 = eights(tests::f8_matrix({40, 300}), {{"table_bits", "8"}}),
                         bf16 = eights(tests::bf16_matrix({40, 300}), {{"table_bits", "8"}});
  refused(f8, format::kHeader, 0, format::float_form(4, true));
  refused(f8, format::kHeader, 2, 4);
  refused(bf16, format::kHeader, 0, format::float_form(4, false));
  refused(bf16, format::kHeader, 2, 15);
  refused(bf16, format::kHeader, 2, 225);
  refused(bf16, format::kTable, 0,
          8 | std::to_integer<int>(bf16.sections[format::kTable].bytes[0]));  // a bit of no use
  // An exponent of 0 has no patch.
  const datasets::Matrix zeros = matrix_of(datasets::ElementType::f8_e4m3, {40, 300},
                                           [](int64_t i) { return static_cast<uint64_t>(i % 4) << 3 | 1; });
  CompressedMatrix bare = eights(zeros);
  REQUIRE(lowest_of(bare) == 0);
  std::vector<std::byte>& tiles = bare.sections[format::kTiles].bytes;
  for (size_t at = 4; at < tiles.size(); at += format::kTileBytes) std::fill_n(tiles.begin() + at, 4, std::byte{0});
  bare.sections[format::kPatches].bytes.clear();
  CHECK_THROWS_AS(decoded(bare), MalformedStream);
  // Products could not add this patch: the lowest exponent is no multiple of 16.
  REQUIRE(lowest_of(bf16) % 16 != 0);
  REQUIRE(!patches_of(bf16).empty());
  refused(bf16, format::kPatches, 2, 255);
  refused(bf16, format::kPatches, 2, 15);
}
