// Tests of the layout of fragments beyond the generic tests: where elements go, how units that are not whole are filled
// up, and that kernels on CPUs put the elements back.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/encode/arrange.h"
#include "codecs/quad_huffman/format/layout.h"
#include "codecs/registry.h"
#include "tests/test_matrices.h"

namespace {

using namespace ecmv;
using namespace ecmv::codecs;
namespace format = ecmv::codecs::quad_huffman;

constexpr datasets::Shape kShapes[] = {{1, 1}, {16, 16}, {17, 15}, {33, 257}, {48, 1040}, {5, 4100}};

uint16_t element_at(std::span<const std::byte> elements, int64_t number) {
  uint16_t bits;
  std::memcpy(&bits, elements.data() + 2 * number, 2);
  return bits;
}

}  // namespace

TEST_CASE("quad_huffman's fragments are a lane's part of operand A, and each element has one place", "[quad_huffman]") {
  const auto runs = GENERATE(format::FragmentRuns::fours, format::FragmentRuns::pairs);
  for (const datasets::Shape shape : kShapes) {
    const datasets::Shape stored = format::fragments_shape(shape);
    REQUIRE(stored.rows % format::kLanes == 0);
    const int64_t whole_cols = (shape.cols + 15) / 16 * 16;
    std::vector<int> seen(static_cast<size_t>(stored.elements()));
    for (int64_t row = 0; row < stored.rows; ++row)
      for (int64_t col = 0; col < stored.cols; ++col) {
        const auto [to_row, to_col] = format::place_of_fragment(row, col, runs);
        // Lane 4 g + t has rows g and g + 8, four columns from 4 t on, or two from 2 t and two from 2 t + 8 on.
        const int64_t lane = row % format::kLanes;
        CHECK(to_row % 8 == lane / 4);
        CHECK((runs == format::FragmentRuns::fours ? to_col % 16 / 4 : to_col % 8 / 2) == lane % 4);
        CHECK(to_col % 2 == col % 2);
        ++seen.at(static_cast<size_t>(to_row * whole_cols + to_col));
      }
    CHECK(std::ranges::all_of(seen, [](int count) { return count == 1; }));
  }
}

TEST_CASE("quad_huffman fills units of fragments with the last row and column, but with nothing infinite",
          "[quad_huffman]") {
  // The last column has infinities and NaN: products meet the filling with zeros.
  const datasets::Matrix matrix = tests::make_typed_matrix("edge", datasets::ElementType::bf16, {3, 5}, [](int64_t i) {
    return i % 5 == 4 ? uint64_t{0x7F80} + i % 2 : 0x4000 + i;
  });
  const datasets::LargeBytes stored = format::arrange(matrix.view(), format::Layout::fragments);
  const datasets::Shape shape = format::fragments_shape(matrix.shape);
  REQUIRE(stored.all().size() == static_cast<size_t>(2 * shape.elements()));
  for (int64_t row = 0; row < shape.rows; ++row)
    for (int64_t col = 0; col < shape.cols; ++col) {
      const auto [from_row, from_col] = format::place_of_fragment(row, col, format::FragmentRuns::pairs);
      const uint16_t own = element_at(matrix.elements,
                                      std::min<int64_t>(from_row, 2) * 5 + std::min<int64_t>(from_col, 4)),
                     bits = element_at(stored.all(), row * shape.cols + col);
      if (from_row < 3 && from_col < 5)
        CHECK(bits == own);
      else
        CHECK((bits == own || bits == 0x3F80));
      if (from_col >= 5) CHECK((bits & 0x7F80) != 0x7F80);
    }
}

TEST_CASE("quad_huffman decodes fragments of every shape, also as they are", "[quad_huffman]") {
  const CodecEntry& entry = *find_codec("quad_huffman");
  std::mt19937 random(3);
  for (const datasets::Shape shape : kShapes)
    for (const auto type : {datasets::ElementType::i8, datasets::ElementType::bf16, datasets::ElementType::f8_e4m3})
      for (const std::string fallback : {"none", "plain"})
        for (const bool noise : {false, true}) {
          const datasets::Matrix matrix = tests::make_typed_matrix("random", type, shape, [&](int64_t) {
            const uint64_t bits = random();
            if (noise) return bits & (type == datasets::ElementType::bf16 ? 0xFFFF : 0xFF);
            if (type == datasets::ElementType::bf16) return 0x3C00 + bits % 1024;
            return type == datasets::ElementType::i8 ? bits % 16 : 0x30 + bits % 16;
          });
          std::vector<std::string> errors;
          const Settings settings = resolve_settings(
              entry.codec->settings, {{"layout", "fragments"}, {"fallback", fallback}, {"tile_cols", "256"}}, errors);
          REQUIRE(errors.empty());
          const CompressedMatrix compressed = encode_matrix(entry, matrix.view(), settings);
          REQUIRE(compressed.stored_bytes() <=
                  entry.codec->max_stored_bytes({shape.rows, shape.cols * datasets::element_bytes(type)}, settings));
          std::vector<std::byte> out(matrix.elements.size(), std::byte{0x55});
          entry.codec->decode(compressed.view(), out);
          CHECK(out == matrix.elements);
        }
}

TEST_CASE("quad_huffman's tiles have any number of segments", "[quad_huffman]") {
  const CodecEntry& entry = *find_codec("quad_huffman");
  const auto settings_of = [&](const std::string& symbol_cols, const std::string& tile_cols) {
    std::vector<std::string> errors;
    const Settings settings = resolve_settings(
        entry.codec->settings, {{"symbol_cols", symbol_cols}, {"tile_cols", tile_cols}, {"fallback", "none"}}, errors);
    REQUIRE(errors.empty());
    return settings;
  };
  const datasets::Matrix integers = tests::gaussian_matrix({35, 2900}, 4), floats = tests::bf16_matrix({35, 2900});
  for (const auto& [symbol_cols, tile_cols] :
       {std::pair{"4", "384"}, {"4", "1920"}, {"4", "1408"}, {"8", "768"}, {"0", "1792"}})
    for (const datasets::Matrix* matrix : {&integers, &floats}) {
      const Settings settings = settings_of(symbol_cols, tile_cols);
      if (!entry.codec->refuses(matrix->view(), settings).empty()) continue;  // bf16 in symbols of 8
      const CompressedMatrix compressed = encode_matrix(entry, matrix->view(), settings);
      CHECK(compressed.stored_bytes() <=
            entry.codec->max_stored_bytes({35, 2900 * datasets::element_bytes(matrix->type)}, settings));
      std::vector<std::byte> out(matrix->elements.size());
      entry.codec->decode(compressed.view(), out);
      CHECK(out == matrix->elements);
    }
  const auto refused = [&](const char* symbol_cols, const char* tile_cols) {
    return entry.codec->refuses(integers.view(), settings_of(symbol_cols, tile_cols));
  };
  CHECK(refused("8", "384").find("multiple of 256") != std::string::npos);
  CHECK(refused("0", "384").find("while symbol_cols is open") != std::string::npos);
  CHECK(refused("4", "0").empty());
}
