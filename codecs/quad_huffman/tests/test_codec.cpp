// Tests of quad_huffman beyond the generic conformance tests: stored sizes, lanes that lag and are moved, patches of
// several records, every number of raw bits with every table, and streams that lie.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/format/schedule.h"
#include "codecs/quad_huffman/format/stored.h"
#include "codecs/quad_huffman/tests/test_streams.h"
#include "codecs/registry.h"
#include "datasets/sources/discrete_sampler.h"
#include "datasets/sources/distributions.h"
#include "tests/test_matrices.h"

namespace {

using namespace ecmv;
using namespace ecmv::codecs;
namespace format = ecmv::codecs::quad_huffman;
using Given = std::map<std::string, std::string>;

datasets::Matrix matrix_of(int64_t rows, int64_t cols, std::vector<int8_t> elements) {
  datasets::Matrix matrix;
  matrix.shape = {rows, cols};
  matrix.elements.resize(elements.size());
  if (!elements.empty()) std::memcpy(matrix.elements.data(), elements.data(), elements.size());
  return matrix;
}

datasets::Matrix gaussian(int64_t rows, int64_t cols, double sigma) {
  std::vector<int8_t> elements(rows * cols);
  datasets::DiscreteSampler(datasets::gaussian_table(sigma))
      .draw({7, 0, datasets::RandomStream::Purpose::matrix}, 0, elements);
  return matrix_of(rows, cols, elements);
}

template <class F>
datasets::Matrix made(int64_t rows, int64_t cols, F f) {
  std::vector<int8_t> elements;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col) elements.push_back(static_cast<int8_t>(f(row, col)));
  return matrix_of(rows, cols, elements);
}

// Rows 8 n + 7 need the longest codes, others next to nothing. The rows change their roles in the middle of the tile.
datasets::Matrix drifting(int64_t rows, int64_t cols) {
  std::mt19937 random(11);
  return made(rows, cols, [&](int64_t row, int64_t col) {
    return (row % 8 == 7) == (col % 2048 < 1400) ? static_cast<int>(random() % 16) : 3;
  });
}

const CodecEntry& entry() { return *find_codec("quad_huffman"); }

// Encodes with codes, even where plain elements would take less.
CompressedMatrix encode(const datasets::Matrix& matrix, Given given = {}) {
  std::vector<std::string> errors;
  given.try_emplace("fallback", "none");
  const Settings settings = resolve_settings(entry().codec->settings, given, errors);
  REQUIRE(errors.empty());
  return encode_matrix(entry(), matrix.view(), settings);
}

std::vector<std::byte> decode(const CompressedMatrix& compressed) {
  std::vector<std::byte> out(compressed.shape.elements());
  entry().codec->decode(compressed.view(), out);
  return out;
}

// Counts how often lanes of the first tile are moved, by a walk along their codes.
int moves_in_first_tile(const CompressedMatrix& compressed) {
  const CompressedView view = compressed.view();
  const format::Stored stored = format::open_stored(view);
  const format::TileCodes codes(stored, stored.tile(0));
  const int64_t segments = stored.segments_of(0);
  std::vector<int64_t> reach;
  int64_t blocks = 0;
  for (int64_t s = 0; s < segments; ++s) reach.push_back(format::reach_of(blocks += stored.schedule[s], codes.lines()));
  int moves = 0;
  for (int lane = 0; lane < format::kLanes; ++lane) {
    int64_t position = 0;
    for (int64_t s = 0; s < segments; ++s) {
      const int64_t floor = 32 * (reach[std::min(s + format::kAhead, segments - 1)] - format::kRingLines);
      moves += position < floor;
      position = std::max(position, floor);
      for (int i = 0; i < format::kSegmentSymbols; ++i) {
        const uint64_t window = codes.word(position / 32, lane) | uint64_t{codes.word(position / 32 + 1, lane)} << 32;
        position +=
            stored.entry_length(static_cast<int64_t>((window >> (position % 32)) & ((1u << stored.table_bits) - 1)));
      }
    }
  }
  return moves;
}

double bits(const CompressedMatrix& compressed) {
  return 8.0 * static_cast<double>(compressed.stored_bytes()) / static_cast<double>(compressed.shape.elements());
}

void check_all(const std::vector<std::pair<datasets::Matrix, CompressedMatrix>>& cases) {
  for (const auto& [matrix, compressed] : cases) {
    INFO(compressed.settings.to_string());
    REQUIRE(decode(compressed) == matrix.elements);
    REQUIRE(compressed.stored_bytes() <= entry().codec->max_stored_bytes(matrix.shape, compressed.settings));
    format::check_decoders(compressed, matrix);
  }
}

}  // namespace

TEST_CASE("quad_huffman stores a few per cent more than the entropy", "[quad_huffman]") {
  const auto over_entropy = [](double sigma, Given given) {
    const datasets::Matrix matrix = gaussian(512, 8192, sigma);
    given["tile_cols"] = "2048";
    return bits(encode(matrix, given)) / datasets::entropy_bits_per_element(matrix.view());
  };
  CHECK(over_entropy(4, {}) < 1.04);  // a hundredth of it the table, as the matrix is small
  CHECK(over_entropy(4, {{"raw_bits", "3"}, {"table_bits", "9"}}) < 1.062);
  CHECK(over_entropy(4, {{"symbol_cols", "8"}, {"raw_bits", "4"}, {"table_bits", "9"}}) < 1.08);
  CHECK(over_entropy(4, {{"symbol_cols", "0"}}) < 1.035);
  CHECK(over_entropy(7.74, {}) < 1.035);
  CHECK(over_entropy(7.74, {{"table_bits", "9"}}) < 1.052);
  CHECK(over_entropy(0.5, {}) < 1.09);  // a quad of zeros has a code of one bit at least
  CHECK(over_entropy(32, {}) < 1.03);
  CHECK(over_entropy(4, {{"symbol_cols", "0"}, {"optimise", "speed"}}) < 1.1);
  // Folded cells. The matrix is small: a table of 2^12 entries takes 0.03 bits an element.
  CHECK(over_entropy(4, {{"cells", "folded"}, {"raw_bits", "3"}, {"table_bits", "9"}}) < 1.034);
  CHECK(over_entropy(4, {{"cells", "folded"}, {"raw_bits", "3"}, {"table_bits", "11"}, {"symbol_cols", "8"}}) < 1.06);
  CHECK(over_entropy(4, {{"cells", "folded"}, {"raw_bits", "4"}, {"table_bits", "9"}, {"symbol_cols", "8"}}) < 1.07);
  CHECK(over_entropy(7.74, {{"cells", "folded"}, {"raw_bits", "4"}, {"table_bits", "9"}}) < 1.03);
}

TEST_CASE("quad_huffman folds cells around any centre", "[quad_huffman]") {
  for (const int centre : {-128, -100, -1, 0, 37, 127}) {
    std::mt19937 random(5);
    std::normal_distribution<> normal(centre, 4);
    const datasets::Matrix matrix = made(64, 2048, [&](int64_t, int64_t) {
      return std::clamp(static_cast<int>(std::lround(normal(random))), -128, 127);
    });
    const CompressedMatrix compressed = encode(matrix, {{"cells", "folded"}, {"raw_bits", "3"}, {"table_bits", "9"}});
    CHECK(decode(compressed) == matrix.elements);
    const format::Stored stored = format::open_stored(compressed.view());
    CHECK(stored.form.folded);
    if (std::abs(centre) <= 100) CHECK(std::abs(stored.lowest - centre) <= 1);
  }
}

TEST_CASE("quad_huffman refuses combinations that no kernel has", "[quad_huffman]") {
  const datasets::Matrix matrix = gaussian(4, 64, 4);
  const auto refused = [&](const Given& given) {
    std::vector<std::string> errors;
    return !entry().codec->refuses(matrix.view(), resolve_settings(entry().codec->settings, given, errors)).empty();
  };
  CHECK(refused({{"symbol_cols", "8"}, {"raw_bits", "3"}, {"cells", "contiguous"}}));
  CHECK(refused({{"symbol_cols", "8"}, {"raw_bits", "6"}}));
  CHECK(refused({{"raw_bits", "6"}, {"cells", "folded"}}));
  CHECK(refused({{"symbol_cols", "8"}, {"raw_bits", "1"}, {"cells", "folded"}}));
  CHECK_FALSE(refused({{"symbol_cols", "0"}, {"raw_bits", "5"}}));
  CHECK_FALSE(refused({{"symbol_cols", "8"}, {"table_bits", "12"}}));
  CHECK(decode(encode(matrix, {{"symbol_cols", "0"}, {"raw_bits", "5"}, {"table_bits", "11"}})) == matrix.elements);
}

TEST_CASE("quad_huffman is honest about data that a quad code does not suit", "[quad_huffman]") {
  std::mt19937 random(2);
  const datasets::Matrix uniform = made(256, 2048, [&](int64_t, int64_t) { return random() & 255; });
  const datasets::Matrix extremes = made(256, 2048, [&](int64_t, int64_t) { return random() & 1 ? 127 : -128; });
  const datasets::Matrix constant = made(256, 2048, [](int64_t, int64_t) { return -77; });
  for (const datasets::Matrix* matrix : {&uniform, &extremes, &constant})
    CHECK(decode(encode(*matrix)) == matrix->elements);
  CHECK(bits(encode(uniform, {{"tile_cols", "2048"}})) < 8.06);
  CHECK(bits(encode(extremes, {{"tile_cols", "2048"}})) < 5.06);  // 4 raw bits, so that 16 cells reach from end to end
  CHECK(bits(encode(constant, {{"tile_cols", "2048"}})) < 0.29);  // a bit a quad
  CHECK(bits(encode(constant, {{"tile_cols", "2048"}, {"symbol_cols", "8"}, {"table_bits", "8"}})) < 0.18);
}

TEST_CASE("quad_huffman chooses settings that hardly any other choice beats", "[quad_huffman]") {
  for (const double sigma : {0.7, 2.5, 4.0, 12.0}) {
    const datasets::Matrix matrix = gaussian(256, 4096, sigma);
    int64_t least = INT64_MAX;
    for (int raw_bits = 0; raw_bits <= 6; ++raw_bits)
      for (int table_bits = format::kLeastTableBits; table_bits <= format::kMostTableBits; ++table_bits)
        least = std::min(
            least, encode(matrix, {{"raw_bits", std::to_string(raw_bits)}, {"table_bits", std::to_string(table_bits)}})
                       .stored_bytes());
    CHECK(encode(matrix).stored_bytes() <= least * 1.01);
  }
}

TEST_CASE("quad_huffman moves lanes that lag, and everybody finds them", "[quad_huffman]") {
  std::vector<std::pair<datasets::Matrix, CompressedMatrix>> cases;
  for (const Given& given :
       {Given{{"raw_bits", "0"}, {"table_bits", "13"}, {"tile_cols", "2048"}},
        Given{{"raw_bits", "1"}, {"table_bits", "9"}, {"tile_cols", "2048"}},
        Given{{"raw_bits", "1"}, {"table_bits", "13"}, {"tile_cols", "2048"}, {"cells", "folded"}}})
    for (const int64_t cols : {2048, 3001}) {
      datasets::Matrix matrix = drifting(40, cols);
      CompressedMatrix compressed = encode(matrix, given);
      cases.push_back({std::move(matrix), std::move(compressed)});
    }
  for (const auto& [matrix, compressed] : cases) CHECK(moves_in_first_tile(compressed) > 0);
  check_all(cases);
}

TEST_CASE("quad_huffman is exact with every number of raw bits and every table", "[quad_huffman]") {
  std::vector<std::pair<datasets::Matrix, CompressedMatrix>> cases;
  const auto add = [&](datasets::Matrix matrix, const Given& given) {
    CompressedMatrix compressed = encode(matrix, given);
    cases.push_back({std::move(matrix), std::move(compressed)});
  };
  for (int raw_bits = 0; raw_bits <= format::kMostRawBits; ++raw_bits)
    for (int table_bits = format::kLeastTableBits; table_bits <= format::kMostTableBits; ++table_bits) {
      const Given given = {
          {"raw_bits", std::to_string(raw_bits)}, {"table_bits", std::to_string(table_bits)}, {"tile_cols", "256"}};
      add(gaussian(37, 389, 2.0 * (1 << raw_bits)), given);
      if (table_bits == 11) add(gaussian(33, 1027, 60.0), given);  // for few raw bits many patches of several records
    }
  for (const auto& [symbol_cols, folded] : {std::pair{8, false}, {4, true}, {8, true}})
    for (int raw_bits = format::least_raw_bits(symbol_cols, folded);
         raw_bits <= format::most_raw_bits(symbol_cols, folded); ++raw_bits)
      for (const int table_bits : {format::kLeastTableBits, 10, format::kMostTableBits}) {
        const Given given = {{"symbol_cols", std::to_string(symbol_cols)},
                             {"raw_bits", std::to_string(raw_bits)},
                             {"table_bits", std::to_string(table_bits)},
                             {"cells", folded ? "folded" : "contiguous"},
                             {"tile_cols", "256"}};
        add(gaussian(37, 389, 0.5 * (1 << raw_bits)), given);
        // Covers all magnitudes on both sides of the centre, and many patches of several records.
        if (folded && table_bits == 10)
          add(made(33, 1027, [&](int64_t row, int64_t col) { return (row * 37 + col * 11) % 256 - 128; }), given);
      }
  for (const std::string symbol_cols : {"4", "8"})
    for (const int64_t cols : {1, 2, 3, 4, 5, 7, 9, 63, 64, 65, 127, 129, 512, 1023, 1025, 2047, 2049})
      for (const std::string cells : {"contiguous", "folded"})
        add(gaussian(3, cols, 4.0), {{"symbol_cols", symbol_cols}, {"table_bits", "9"}, {"cells", cells}});
  add(made(45, 300, [](int64_t row, int64_t col) { return (row + col) % 2 ? 127 : -128; }), {{"raw_bits", "0"}});
  add(made(32, 2048, [](int64_t, int64_t) { return 127; }), {});
  add(matrix_of(0, 64, {}), {});
  add(matrix_of(5, 0, {}), {});
  check_all(cases);
}

TEST_CASE("quad_huffman stores what codes would make larger as it is, and says so to its kernels", "[quad_huffman]") {
  std::mt19937 random(5);
  const auto any = [&](int64_t, int64_t) { return static_cast<int>(random() & 255) - 128; };
  const Given plain = {{"fallback", "plain"}};
  std::vector<std::pair<datasets::Matrix, CompressedMatrix>> cases;
  for (const auto& [rows, cols] :
       {std::pair{64, 64}, {257, 64}, {512, 128}, {64, 4096}, {4096, 64}, {1000, 1000}, {1, 3}})
    for (const bool coded : {false, true}) {
      datasets::Matrix matrix = coded ? gaussian(rows, cols, 4.0) : made(rows, cols, any);
      CompressedMatrix compressed = encode(matrix, plain);
      CHECK(compressed.stored_bytes() <= rows * cols + format::kPlainHeaderBytes);
      CHECK(compressed.stored_bytes() <= encode(matrix).stored_bytes());
      if (!coded) CHECK(compressed.sections[format::kHeader].bytes.size() == 1);
      cases.push_back({std::move(matrix), std::move(compressed)});
    }
  check_all(cases);

  const CompressedMatrix& good = cases[0].second;
  CompressedMatrix bad = good;
  bad.sections[format::kRaw].bytes.pop_back();
  CHECK_THROWS_AS(decode(bad), MalformedStream);
  bad = good;
  bad.sections[format::kPatches].bytes.resize(2);
  CHECK_THROWS_AS(decode(bad), MalformedStream);
}

TEST_CASE("quad_huffman patches an element as often as it takes", "[quad_huffman]") {
  // One element is 127 among -128 .. -113, without raw bits: h = 255 is coded as 15 at most, so it takes 240 patches.
  const datasets::Matrix matrix =
      made(32, 128, [](int64_t row, int64_t col) { return row == 9 && col == 77 ? 127 : -128 + (row * 5 + col) % 16; });
  const CompressedMatrix compressed = encode(matrix, {{"raw_bits", "0"}});
  CHECK(compressed.sections[format::kPatches].bytes.size() >= 2 * 240);
  CHECK(compressed.sections[format::kPatches].bytes.size() < 2 * 300);
  CHECK(decode(compressed) == matrix.elements);
}

TEST_CASE("quad_huffman refuses streams that lead outside", "[quad_huffman]") {
  const datasets::Matrix matrix = gaussian(40, 300, 8.0);
  const CompressedMatrix good = encode(matrix, {{"raw_bits", "2"}, {"table_bits", "9"}, {"cells", "contiguous"}});
  REQUIRE(decode(good) == matrix.elements);
  const auto damaged = [&](int section, size_t at, int value) {
    CompressedMatrix bad = good;
    bad.sections[section].bytes[at] = std::byte(value);
    return bad;
  };
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 0, 8)), MalformedStream);   // raw bits
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 0, 16)), MalformedStream);  // folded without a sign
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 0, 22)), MalformedStream);
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 0, 34)), MalformedStream);
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 0, 3)), MalformedStream);   // the raw section has others
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 1, 14)), MalformedStream);  // table bits
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 3, 2)), MalformedStream);   // lowest far from int8
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 4, 12)), MalformedStream);  // tiles of 4096 columns
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 4, 6)), MalformedStream);
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 4, 64)), MalformedStream);       // tiles of no columns
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 4, 64 + 63)), MalformedStream);  // tiles of 8064 columns
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 4, 32 + 8)), MalformedStream);  // neither segments nor a power of two
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 5, 0)), MalformedStream);       // symbols of a column
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 5, 1)), MalformedStream);       // symbols of 2 columns
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 5, 3)), MalformedStream);       // the table has others
  CHECK_THROWS_AS(decode(damaged(format::kTable, 0, 2)), MalformedStream);        // a bit where raw ones go
  CHECK_THROWS_AS(decode(damaged(format::kTable, 1, 0x80)), MalformedStream);     // a high part above 15
  CHECK_THROWS_AS(decode(damaged(format::kTiles, 3, 255)), MalformedStream);      // codes past the last
  CHECK_THROWS_AS(decode(damaged(format::kTiles, 7, 255)), MalformedStream);      // patches past the last
  CHECK_THROWS_AS(decode(damaged(format::kTiles, 11, 255)), MalformedStream);  // more patches on the left than in all
  CHECK_THROWS_AS(decode(damaged(format::kTiles, 12, 255)), MalformedStream);  // full lines
  CHECK_THROWS_AS(decode(damaged(format::kTiles, 14, 33)), MalformedStream);   // partial lines
  CHECK_THROWS_AS(decode(damaged(format::kSchedule, 0, 0)), MalformedStream);  // codes before their lines
  for (int section = 0; section < format::kSections; ++section) {
    CompressedMatrix shorter = good, none = good;
    shorter.sections[section].bytes.pop_back();
    none.sections.erase(none.sections.begin() + section);
    CHECK_THROWS_AS(decode(shorter), MalformedStream);
    CHECK_THROWS_AS(decode(none), MalformedStream);
  }
  CompressedMatrix far = good;
  REQUIRE(good.sections[format::kPatches].bytes.size() > 100);
  std::fill(far.sections[format::kPatches].bytes.begin(), far.sections[format::kPatches].bytes.end(), std::byte{0x7f});
  CHECK_THROWS_AS(decode(far), MalformedStream);
}

TEST_CASE("quad_huffman refuses packed entries with bits that mean nothing", "[quad_huffman]") {
  const CompressedMatrix good = encode(
      gaussian(40, 300, 4.0), {{"symbol_cols", "8"}, {"raw_bits", "3"}, {"table_bits", "9"}, {"cells", "folded"}});
  CompressedMatrix bad = good, endless = good;
  bad.sections[format::kTable].bytes[1] |= std::byte{0x10};
  endless.sections[format::kTable].bytes[3] &= std::byte{0x0f};  // a length of 0
  CHECK_THROWS_AS(decode(bad), MalformedStream);
  CHECK_THROWS_AS(decode(endless), MalformedStream);
}

TEST_CASE("quad_huffman keeps every pattern of bf16, coding exponents", "[quad_huffman]") {
  for (const std::string cols : {"4", "0"}) {
    INFO(cols);
    // Covers all patterns in disorder; all exponents, so that most are outside the cells of 4 columns; one exponent;
    // NaN and infinities only.
    const auto bits_of = [](int kind, uint32_t i) {
      const uint32_t pattern = i * 40503u & 0xffff;
      return kind == 0   ? pattern
             : kind == 1 ? (pattern & 0x807f) | (i % 200 == 0 ? pattern & 0x7f80 : 0x3f80)
             : kind == 2 ? (pattern & 0x807f) | 0x3f80
                         : pattern | 0x7f80;
    };
    for (int kind = 0; kind < 4; ++kind) {
      datasets::Matrix matrix;
      matrix.type = datasets::ElementType::bf16;
      matrix.shape = {131, 501};
      for (uint32_t i = 0; i < 131 * 501; ++i)
        for (int byte = 0; byte < 2; ++byte)
          matrix.elements.push_back(static_cast<std::byte>(bits_of(kind, i) >> (8 * byte)));
      const CompressedMatrix compressed = encode(matrix, {{"symbol_cols", cols}});
      std::vector<std::byte> out(matrix.elements.size());
      entry().codec->decode(compressed.view(), out);
      CHECK(out == matrix.elements);
      format::check_decoders(compressed, matrix);
    }
  }
}

TEST_CASE("quad_huffman's bf16 takes a quarter of a bit more than the entropy of exponents", "[quad_huffman]") {
  const datasets::Matrix matrix = tests::bf16_matrix({512, 8192});
  std::map<int, double> counts;
  for (size_t i = 0; i < matrix.elements.size(); i += 2)
    ++counts[(std::to_integer<int>(matrix.elements[i + 1]) << 1 & 254) | std::to_integer<int>(matrix.elements[i]) >> 7];
  double entropy = 8;
  for (const auto& [exponent, count] : counts)
    entropy -= count / static_cast<double>(matrix.shape.elements()) *
               std::log2(count / static_cast<double>(matrix.shape.elements()));
  const auto over = [&](const Given& given) { return bits(encode(matrix, given)) - entropy; };
  CHECK(over({{"symbol_cols", "4"}, {"table_bits", "12"}, {"tile_cols", "2048"}}) < 0.27);
}

TEST_CASE("quad_huffman refuses bf16 streams that lead outside", "[quad_huffman]") {
  const datasets::Matrix matrix = tests::bf16_matrix({40, 300});
  const CompressedMatrix good = encode(matrix, {{"symbol_cols", "4"}, {"table_bits", "8"}});
  REQUIRE(good.sections[format::kPatches].bytes.size() > 100);
  const auto refused = [&](int section, size_t at, int value) {
    CompressedMatrix bad = good;
    bad.sections[section].bytes[at] = std::byte(value);
    std::vector<std::byte> out(matrix.elements.size());
    CHECK_THROWS_AS(entry().codec->decode(bad.view(), out), MalformedStream);
  };
  refused(format::kHeader, 0, 8);     // raw bits of 2 columns
  refused(format::kHeader, 0, 3);     // raw bits of int8
  refused(format::kHeader, 3, 1);     // no exponent
  refused(format::kHeader, 5, 1);     // 2 columns
  refused(format::kHeader, 6, 0);     // a stand-in that is larger than the largest
  refused(format::kPatches, 3, 0);    // replaces an exponent that is not coded
  refused(format::kPatches, 1, 255);  // a column past the last
  const std::vector<std::byte>& patches = good.sections[format::kPatches].bytes;
  refused(format::kPatches, patches.size() - 1,
          std::to_integer<int>(patches.back()) ^ 1);  // not the element's mantissa
  refused(format::kHeader, 5, 2);                     // patches without signs
  CompressedMatrix other = good;
  other.type = datasets::ElementType::i8;
  std::vector<std::byte> out(matrix.elements.size());
  CHECK_THROWS_AS(entry().codec->decode(other.view(), out), MalformedStream);
}
