// Tests of the layout of strips beyond the generic tests: where elements go, and how patches lie.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/encode/encode.h"
#include "codecs/quad_huffman/format/patches.h"
#include "codecs/quad_huffman/format/stored.h"
#include "codecs/registry.h"
#include "tests/test_matrices.h"

namespace {

using namespace ecmv;
using namespace ecmv::codecs;
namespace format = ecmv::codecs::quad_huffman;

CompressedMatrix in_strips(const datasets::Matrix& matrix, std::map<std::string, std::string> given) {
  const CodecEntry& entry = *find_codec("quad_huffman");
  given.merge(std::map<std::string, std::string>{{"layout", "strips"},
                                                 {"fallback", "none"},
                                                 {"tile_cols", "2048"},
                                                 {"cells", "contiguous"},
                                                 {"symbol_cols", "8"},
                                                 {"raw_bits", "0"},
                                                 {"table_bits", "9"}});
  std::vector<std::string> errors;
  const Settings settings = resolve_settings(entry.codec->settings, given, errors);
  REQUIRE(errors.empty());
  CompressedMatrix compressed = encode_matrix(entry, matrix.view(), settings);
  REQUIRE(compressed.stored_bytes() <= entry.codec->max_stored_bytes(matrix.shape, settings));
  return compressed;
}

std::vector<std::byte> decoded(const CompressedMatrix& compressed, const datasets::Matrix& matrix) {
  std::vector<std::byte> out(matrix.elements.size(), std::byte{0x55});
  find_codec("quad_huffman")->codec->decode(compressed.view(), out);
  return out;
}

}  // namespace

TEST_CASE("quad_huffman's strips have a place for each element", "[quad_huffman]") {
  for (const datasets::Shape shape : {datasets::Shape{1, 1}, {3, 1024}, {5, 1025}, {2, 3000}}) {
    const datasets::Shape stored = format::strips_shape(shape);
    REQUIRE(stored.rows % format::kLanes == 0);
    std::vector<int> seen(static_cast<size_t>(stored.elements()));
    for (int64_t row = 0; row < stored.rows; ++row)
      for (int64_t col = 0; col < stored.cols; ++col) {
        const auto [to_row, to_col] = format::place_of_strip(row, col);
        CHECK(to_row < shape.rows);
        CHECK(to_col / format::kLaneCols == row);
        ++seen.at(static_cast<size_t>(to_row * stored.rows * format::kLaneCols + to_col));
      }
    CHECK(std::ranges::all_of(seen, [](int count) { return count == 1; }));
  }
}

TEST_CASE("quad_huffman decodes strips of every shape", "[quad_huffman]") {
  std::mt19937 random(7);
  for (const datasets::Shape shape : {datasets::Shape{1, 1}, {16, 16}, {17, 1500}, {70, 1024}, {129, 40}}) {
    const datasets::Matrix matrix =
        tests::make_typed_matrix("random", datasets::ElementType::i8, shape, [&](int64_t) { return random() % 5; });
    for (const char* symbols : {"ordered", "rotated"})
      for (const char* raw_bits : {"0", "1", "2"})
        for (const char* tile_cols : {"256", "2048"})
          CHECK(decoded(in_strips(matrix, {{"symbols", symbols}, {"raw_bits", raw_bits}, {"tile_cols", tile_cols}}),
                        matrix) == matrix.elements);
  }
}

TEST_CASE("quad_huffman's rotated symbols take less where tables are small", "[quad_huffman]") {
  const datasets::Matrix matrix = tests::gaussian_matrix({256, 2048}, 0.5);
  const auto bits = [&](const char* symbols, const char* table_bits) {
    const CompressedMatrix compressed = in_strips(matrix, {{"symbols", symbols}, {"table_bits", table_bits}});
    CHECK(decoded(compressed, matrix) == matrix.elements);
    // Leaves out the table, which a larger matrix would hardly notice.
    return 8 * static_cast<double>(compressed.stored_bytes() - (int64_t{4} << std::stoi(table_bits))) /
           static_cast<double>(matrix.shape.elements());
  };
  // With three bits of rotation a table of 2^10 has as many symbols as one of 2^13, except for symbols that equal some
  // of their own rotations.
  const double ordered = bits("ordered", "13"), rotated = bits("rotated", "10");
  CHECK(bits("ordered", "10") > rotated + 0.15);
  CHECK(rotated < ordered + 0.04);
  CHECK(bits("rotated", "11") < ordered + 0.02);
}

TEST_CASE("quad_huffman keeps the order of symbols where a segment of rotated ones would be too long",
          "[quad_huffman]") {
  std::mt19937 random(3);
  // Either a segment, eight rows of each tile, has symbols with the longest codes; or one lane has shorter codes than
  // all others and is moved.
  for (const bool segment : {true, false}) {
    const datasets::Matrix matrix =
        tests::make_typed_matrix("mixed", datasets::ElementType::i8, {512, 1024}, [&](int64_t i) {
          if (segment && i / 1024 % 64 < 8) return static_cast<int>(random() % 4);
          return (segment || i % 1024 >= 32) && random() % (segment ? 64 : 3) == 0 ? 1 : 0;
        });
    const CompressedMatrix compressed = in_strips(matrix, {{"symbols", "rotated"}, {"table_bits", "12"}});
    CHECK(format::open_stored(compressed.view()).rotated);
    CHECK(format::open_stored(compressed.view()).table_bits == (segment ? 10 : 12));
    CHECK(decoded(compressed, matrix) == matrix.elements);
  }
}

TEST_CASE("quad_huffman refuses rotated symbols that it has not", "[quad_huffman]") {
  const CodecEntry& entry = *find_codec("quad_huffman");
  const datasets::Matrix matrix = tests::gaussian_matrix({32, 64}, 0.5);
  const auto refused = [&](const std::map<std::string, std::string>& given) {
    std::vector<std::string> errors;
    const Settings settings = resolve_settings(entry.codec->settings, given, errors);
    REQUIRE(errors.empty());
    return !entry.codec->refuses(matrix.view(), settings).empty();
  };
  CHECK(refused({{"symbols", "rotated"}, {"layout", "rows"}, {"symbol_cols", "8"}}));
  CHECK(refused({{"layout", "strips"}, {"symbol_cols", "4"}}));
  CHECK(refused({{"symbols", "rotated"}, {"layout", "strips"}, {"symbol_cols", "8"}, {"cells", "folded"}}));
  CHECK(refused({{"symbols", "rotated"}, {"layout", "strips"}, {"symbol_cols", "8"}, {"table_bits", "13"}}));
  CHECK_FALSE(refused({{"symbols", "rotated"}, {"layout", "strips"}, {"symbol_cols", "8"}}));
}

TEST_CASE("quad_huffman's strips and rotated symbols bring along what they want", "[quad_huffman]") {
  const CodecEntry& entry = *find_codec("quad_huffman");
  std::vector<std::string> errors;
  const Settings strips = resolve_settings(entry.codec->settings, {{"layout", "strips"}}, errors),
                 rotated = resolve_settings(entry.codec->settings, {{"symbols", "rotated"}}, errors),
                 given = resolve_settings(entry.codec->settings, {{"symbols", "rotated"}, {"layout", "rows"}}, errors);
  CHECK(errors.empty());
  CHECK(strips.integer("symbol_cols") == 8);
  CHECK(strips.text("cells") == "any");
  CHECK((rotated.integer("symbol_cols") == 8 && rotated.text("layout") == "strips"));
  CHECK(rotated.text("cells") == "contiguous");
  CHECK(given.text("layout") == "rows");
}

TEST_CASE("quad_huffman packs patches of strips by their distances", "[quad_huffman]") {
  using Placed = std::vector<uint32_t>;
  const auto last = static_cast<uint32_t>(format::tile_places(format::kMostTileCols) - 1);
  const auto at = [](uint32_t place, bool takes) { return place << 1 | (takes ? 1u : 0u); };
  for (const Placed& placed :
       {Placed{}, Placed{at(0, false)}, Placed{at(last, true)}, Placed{at(2046, true), at(4093, false)},
        Placed{at(3, false), at(3, false), at(3, true), at(2049, true), at(2050, false), at(2051, true),
               at(2052, true)},
        Placed{at(1, true), at(2, true), at(3, true), at(4, true), at(5, true), at(6, true), at(7, true),
               at(2055, true)}}) {
    std::vector<std::byte> bytes;
    const int64_t packets = format::append_packets(placed, bytes);
    REQUIRE(bytes.size() == static_cast<size_t>(packets * format::kPacketBytes));
    const auto* stored = reinterpret_cast<const uint8_t*>(bytes.data());
    Placed seen;
    format::for_each_placed_patch(stored, 0, packets, [&](const format::PlacedPatch& patch, int64_t place) {
      seen.push_back(at(static_cast<uint32_t>(place), patch.takes));
    });
    CHECK(seen == placed);
    CHECK(packets * format::kPacketPatches - static_cast<int64_t>(placed.size()) <=
          format::most_moving_patches(format::kMostTileCols));
  }
}

TEST_CASE("quad_huffman's patches of strips take twelve bits", "[quad_huffman]") {
  // Some 1 % of the elements have patches.
  const datasets::Matrix matrix = tests::gaussian_matrix({64, 1024}, 0.5);
  const CompressedMatrix compressed = in_strips(matrix, {});
  const format::Stored stored = format::open_stored(compressed.view());
  int64_t patches = 0, last = 0;
  format::for_each_placed_patch(stored.patches, 0, stored.first_patch(1),
                                [&](const format::PlacedPatch&, int64_t place) {
                                  CHECK(place >= last);
                                  last = place, ++patches;
                                });
  REQUIRE(patches > 100);
  CHECK(static_cast<int64_t>(compressed.sections[format::kPatches].bytes.size()) <
        (patches + format::kPacketPatches) * 3 / 2 + format::kPacketBytes);
}

TEST_CASE("quad_huffman's decoder refuses strips that kernels would not decode alike", "[quad_huffman]") {
  const datasets::Matrix matrix = tests::gaussian_matrix({64, 1024}, 0.5);
  const CompressedMatrix good = in_strips(matrix, {{"symbols", "rotated"}});
  const auto refused = [&](int section, size_t byte, std::byte flipped) {
    CompressedMatrix bad = good;
    bad.sections[section].bytes[byte] ^= flipped;
    CHECK_THROWS_AS(decoded(bad, matrix), MalformedStream);
  };
  CHECK(decoded(good, matrix) == matrix.elements);
  refused(format::kHeader, 4, std::byte{format::header_bits::kFragments});  // fragments as well
  refused(format::kHeader, 5, std::byte{format::header_bits::kStrips});     // rotated rows
  refused(format::kTable, 1, std::byte{0x80});                              // a length that is right modulo 64 alone
  refused(format::kSchedule, 0, std::byte{8});                              // a full ring before the first segment
  refused(format::kHeader, 5, std::byte{32});                               // a bit that means nothing
  CompressedMatrix far = good;                                              // patches past the tile's last place
  std::vector<std::byte>& patches = far.sections[format::kPatches].bytes;
  REQUIRE(patches.size() > 8 * format::kPacketBytes);
  std::fill(patches.begin(), patches.end(), std::byte{0xFD});
  CHECK_THROWS_AS(decoded(far, matrix), MalformedStream);
}
