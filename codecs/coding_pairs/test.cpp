// The vectors of the literature's formats, every pattern of the lossless ones, and random access.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>
#include <cstring>
#include <set>

#include "codecs/coding_pairs/coders.h"
#include "codecs/coding_pairs/format.h"
#include "codecs/coding_pairs/pairs.h"
#include "codecs/registry.h"
#include "datasets/numbers.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::codecs::coding_pairs;
using datasets::ElementType;

namespace {

const codecs::CodecEntry& entry() { return *codecs::find_codec("coding_pairs"); }

backends::Settings settings(std::map<std::string, std::string> given) {
  std::vector<std::string> errors;
  backends::Settings result = codecs::resolve_settings(entry().codec->settings, given, errors);
  REQUIRE(errors.empty());
  return result;
}

struct Triple {
  uint32_t code;
  int bits;
  uint64_t extra;
  bool operator==(const Triple&) const = default;
};

std::vector<Triple> pairs_of(std::string_view format, const datasets::Matrix& matrix) {
  std::vector<Pair> pairs;
  find_format(format).append(matrix.view(), 0, matrix.shape.elements(), pairs);
  std::vector<Triple> out;
  for (const Pair& pair : pairs) out.push_back({pair.code, pair.bits, pair.extra});
  return out;
}

datasets::Matrix typed(ElementType type, std::vector<uint64_t> patterns) {
  return tests::make_typed_matrix("given", type, {1, static_cast<int64_t>(patterns.size())},
                                  [&](int64_t i) { return patterns[static_cast<size_t>(i)]; });
}

datasets::Matrix int8s(std::vector<int> values) {
  return tests::make_matrix("given", {1, static_cast<int64_t>(values.size())},
                            [&](int64_t i) { return values[static_cast<size_t>(i)]; });
}

class Given final : public PairSource {
 public:
  explicit Given(std::vector<Pair> pairs) : pairs_(std::move(pairs)) {}
  Pair next() override { return pairs_.at(at_++); }
  size_t used() const { return at_; }

 private:
  std::vector<Pair> pairs_;
  size_t at_ = 0;
};

// append() and restore(), without a coder.
std::vector<std::byte> there_and_back(std::string_view format, const datasets::Matrix& matrix) {
  std::vector<Pair> pairs;
  find_format(format).append(matrix.view(), 0, matrix.shape.elements(), pairs);
  for (const Pair& pair : pairs) {
    if (pair.bits != find_format(format).extra_bits(pair.code, matrix.type) ||
        (pair.bits < 64 && pair.extra >> pair.bits != 0) || pair.code >= find_format(format).codes(matrix.type))
      FAIL("a pair of " << format << " is not what its code says");
  }
  Given source(pairs);
  std::vector<std::byte> out(matrix.elements.size(), std::byte{0x5A});
  find_format(format).restore(source, matrix.type, out);
  CHECK(source.used() == pairs.size());
  return out;
}

datasets::Matrix all_patterns(ElementType type) {
  const bool wide = datasets::element_bytes(type) == 2;
  return tests::make_typed_matrix("all", type, wide ? datasets::Shape{256, 256} : datasets::Shape{1, 256},
                                  [](int64_t i) { return static_cast<uint64_t>(i); });
}

uint16_t bf16_after(std::string_view format, uint16_t pattern) {
  const auto bytes = there_and_back(format, typed(ElementType::bf16, {pattern}));
  return static_cast<uint16_t>(std::to_integer<unsigned>(bytes[0]) | std::to_integer<unsigned>(bytes[1]) << 8);
}

}  // namespace

TEST_CASE(
    "coding_pairs: every pattern of every float type survives as exponent and extra bits, through every "
    "coder") {
  for (const ElementType type : {ElementType::bf16, ElementType::f16, ElementType::f8_e5m2, ElementType::f8_e4m3}) {
    const datasets::Matrix matrix = all_patterns(type);
    for (const std::string_view coder : coder_names()) {
      const backends::Settings chosen = settings({{"coder", std::string(coder)}, {"checkpoint_elements", "100"}});
      REQUIRE(entry().codec->refuses(matrix.view(), chosen) == "");
      const backends::CompressedMatrix compressed = codecs::encode_matrix(entry(), matrix.view(), chosen);
      std::vector<std::byte> decoded(matrix.elements.size());
      entry().codec->decode(compressed.view(), decoded);
      CHECK(decoded == matrix.elements);
    }
  }
  CHECK(pairs_of("exponent", typed(ElementType::bf16, {0xBF81})) == std::vector<Triple>{{127, 8, 0x81}});
}

TEST_CASE("coding_pairs: fp11 and fp12 round to even, carry, saturate and keep NaN and infinities") {
  // sign | exponent | fraction as one number.
  const auto fields = [](std::string_view format, uint16_t pattern) {
    const Triple t = pairs_of(format, typed(ElementType::bf16, {pattern}))[0];
    return t.code << (t.bits - 1) | static_cast<uint32_t>(t.extra);
  };
  CHECK(fields("fp11", 0x3F80) == 0x1FC);
  CHECK(fields("fp11", 0x3F90) == 0x1FC);
  CHECK(fields("fp11", 0x3FB0) == 0x1FE);
  CHECK(fields("fp11", 0x3FFF) == 0x200);
  CHECK(fields("fp12", 0x3F98) == 0x3FA);
  CHECK(fields("fp12", 0x3FFC) == 0x400);
  CHECK(bf16_after("fp11", 0x7F7F) == 0x7F60);  // the largest stays finite
  CHECK(bf16_after("fp11", 0xFF80) == 0xFF80);
  CHECK(std::isnan(datasets::bf16_value(bf16_after("fp11", 0x7F81))));
  for (const char* format : {"fp11", "fp12", "saliency"}) {
    const datasets::Matrix all = all_patterns(ElementType::bf16);
    const codecs::BoundCheck check =
        codecs::check_bound(all.view(), there_and_back(format, all), find_format(format).bound(all.view()));
    CHECK(check.violation == "");
    CHECK(check.used > 0.99);  // the bound is not wider than it must be
  }
}

TEST_CASE("coding_pairs: 8-bit floats are the nearest ones, halves to even") {
  for (const ElementType type : {ElementType::f8_e5m2, ElementType::f8_e4m3}) {
    const bool e5m2 = type == ElementType::f8_e5m2;
    const std::string name = e5m2 ? "fp8_e5m2" : "fp8_e4m3";
    const auto value = [&](uint8_t bits) {
      return e5m2 ? datasets::f8_e5m2_value(bits) : datasets::f8_e4m3_value(bits);
    };
    CHECK(there_and_back(name, all_patterns(type)) == all_patterns(type).elements);
    // Every finite value is a bf16 and stays, and the middle of two neighbours goes to the even one.
    for (int bits = 0; value(static_cast<uint8_t>(bits + 1)) > value(static_cast<uint8_t>(bits)) &&
                       std::isfinite(value(static_cast<uint8_t>(bits + 1)));
         ++bits) {
      const double low = value(static_cast<uint8_t>(bits)), high = value(static_cast<uint8_t>(bits + 1));
      CHECK(datasets::bf16_value(bf16_after(name, datasets::nearest_bf16(low))) == low);
      CHECK(datasets::bf16_value(bf16_after(name, datasets::nearest_bf16(-(low + high) / 2))) ==
            -(bits % 2 == 0 ? low : high));
    }
    const datasets::Matrix small = tests::make_typed_matrix("small", ElementType::bf16, {100, 256}, [](int64_t i) {
      return static_cast<uint64_t>((i % 0x4300) | (i << 15 & 0x8000));
    });
    REQUIRE(find_format(name).refuses(small.view()) == "");
    const codecs::BoundCheck check =
        codecs::check_bound(small.view(), there_and_back(name, small), find_format(name).bound(small.view()));
    CHECK(check.violation == "");
    CHECK(check.used > 0.99);
    CHECK(find_format(name).refuses(typed(ElementType::bf16, {0x4B00}).view()) != "");
  }
  CHECK(bf16_after("fp8_e5m2", 0x7F80) == 0x7F80);
  CHECK(find_format("fp8_e4m3").refuses(typed(ElementType::bf16, {0x7F80}).view()) != "");
}

TEST_CASE(
    "coding_pairs: posits have the pairs of the literature, as many codes, and extra bits by the code "
    "alone") {
  const std::map<std::string, uint32_t> kCodes = {{"posit8_0", 15},  {"posit8_1", 25},   {"posit8_2", 41},
                                                  {"posit16_1", 57}, {"posit16_2", 105}, {"posit6_2", 25},
                                                  {"posit5_3", 17}};
  for (const auto& [name, codes] : kCodes) {
    const int bits = std::stoi(name.substr(5));
    const ElementType type = bits <= 8 ? ElementType::u8 : ElementType::u16;
    CHECK(find_format(name).codes(type) == codes);
    const datasets::Matrix words = tests::make_typed_matrix("words", type, {1, int64_t{1} << bits},
                                                            [](int64_t i) { return static_cast<uint64_t>(i); });
    CHECK(there_and_back(name, words) == words.elements);
    CHECK(codecs::check_bound(tests::bf16_matrix({40, 60}, 1.0).view(),
                              there_and_back(name, tests::bf16_matrix({40, 60}, 1.0)),
                              find_format(name).bound(tests::bf16_matrix({40, 60}, 1.0).view()))
              .violation == "");
  }
  const auto of_word = [](const char* format, uint64_t word) {
    return pairs_of(format, typed(ElementType::u8, {word}))[0];
  };
  // Codes stand for exponents: 0 zero, 1 NaR, then ascending from -6 (es 0) or -24 (es 2).
  CHECK(of_word("posit8_0", 0x40) == Triple{2 + 6, 6, 0});
  CHECK(of_word("posit8_0", 0x50) == Triple{2 + 6, 6, 16});
  CHECK(of_word("posit8_0", 0x01) == Triple{2, 1, 0});
  CHECK(of_word("posit8_0", 0x7F) == Triple{2 + 12, 1, 0});
  CHECK(of_word("posit8_0", 0xC0) == Triple{2 + 6, 6, 32});
  CHECK(of_word("posit8_0", 0xB0) == Triple{2 + 6, 6, 48});
  const auto exponent = [&](uint64_t word) {  // of posit8_2, by rank of the codes of positive powers
    std::set<uint32_t> below;
    for (uint64_t w = 1; w < 128; ++w) below.insert(of_word("posit8_2", w).code);
    return static_cast<int>(std::distance(below.begin(), below.find(of_word("posit8_2", word).code)));
  };
  CHECK(exponent(0x01) == 0);
  CHECK(exponent(0x50) - exponent(0x48) == 1);
  CHECK(of_word("posit8_2", 0x50).bits == 4);
  CHECK(bf16_after("posit8_0", 0x3F80) == 0x3F80);
  CHECK(bf16_after("posit8_0", 0x0001) == 0x3C80);  // the least posit, 1/64: never zero
  CHECK(bf16_after("posit8_0", 0xC700) == 0xC280);  // cut off at 64
  CHECK(find_format("posit8_0").refuses(typed(ElementType::bf16, {0x7F80}).view()) != "");
  CHECK(find_format("posit6_2").refuses(typed(ElementType::u8, {64}).view()) != "");
}

TEST_CASE("coding_pairs: integers by their leading bit, saturated and direct") {
  CHECK(pairs_of("integer", int8s({0, -1, 2, -3, 13, -13, -64})) ==
        std::vector<Triple>{{0, 0, 0}, {1, 1, 1}, {2, 2, 0}, {2, 2, 3}, {4, 4, 5}, {4, 4, 13}, {7, 7, 64}});
  CHECK(pairs_of("integer", typed(ElementType::u8, {0, 1, 13})) ==
        std::vector<Triple>{{0, 0, 0}, {1, 0, 0}, {4, 3, 5}});
  CHECK(pairs_of("saturated4", int8s({13, 17, 31, -100, 127})) ==
        std::vector<Triple>{{4, 4, 5}, {5, 4, 1}, {6, 4, 0}, {7, 4, 13}, {8, 4, 0}});
  const auto decoded = there_and_back("saturated4", int8s({13, 17, 31, -100, 127, -128}));
  CHECK(std::vector<int>{int8_t(decoded[0]), int8_t(decoded[1]), int8_t(decoded[2]), int8_t(decoded[3]),
                         int8_t(decoded[4]), int8_t(decoded[5])} == std::vector<int>{13, 18, 32, -104, 127, -128});
  CHECK(pairs_of("direct", int8s({0, 5, -5, -128})) ==
        std::vector<Triple>{{0, 0, 0}, {5, 1, 0}, {5, 1, 1}, {128, 1, 1}});
  for (const ElementType type : {ElementType::i8, ElementType::u8, ElementType::i16, ElementType::u16}) {
    const datasets::Matrix all = all_patterns(type);
    CHECK(there_and_back("integer", all) == all.elements);
    CHECK(there_and_back("direct", all) == all.elements);
    if (type == ElementType::u8 || type == ElementType::u16) continue;
    for (const char* format : {"saturated3", "saturated4", "saturated6"}) {
      const codecs::BoundCheck check =
          codecs::check_bound(all.view(), there_and_back(format, all), find_format(format).bound(all.view()));
      CHECK(check.violation == "");
      CHECK(check.used > 0.85);
    }
  }
}

TEST_CASE("coding_pairs: ternary and binary weights as runs") {
  CHECK(pairs_of("ternary_runs", int8s({0, 0, 0, -1, 1, 0, 0, 1})) ==
        std::vector<Triple>{{2, 2, 3}, {0, 1, 0}, {2, 2, 0}});
  for (int length = 0; length <= 200; ++length)
    for (const bool binary : {false, true}) {
      datasets::Matrix matrix = tests::ternary_matrix({1, 300}, binary);
      matrix.elements = {matrix.elements.begin() + 60, matrix.elements.begin() + 60 + length};
      matrix.shape.cols = length;
      CHECK(there_and_back(binary ? "binary_runs" : "ternary_runs", matrix) == matrix.elements);
    }
  CHECK(find_format("binary_runs").refuses(int8s({-1}).view()) != "");
  CHECK(find_format("ternary_runs").refuses(int8s({2}).view()) != "");
}

TEST_CASE("coding_pairs: tANS and rANS make the known bits") {
  const std::vector<uint32_t> q = {10, 4, 2};
  const std::unique_ptr<Coder> tans = make_tans(q, 4);
  const std::vector<Pair> pairs = {{0, 0, 0}, {1, 1, 1}, {0, 0, 0}, {3, 2, 2}};
  BitStack bits;
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    bits.push(pair->extra, pair->bits);
    tans->encode(pair->code, bits);
  }
  CHECK(tans->state() == 24 - 16);
  CHECK(bits.bits() == 9);
  CHECK(bits.finish() == std::vector<std::byte>{std::byte{0x01}, std::byte{0xA3}});  // 110100011 after seven zeros

  const std::unique_ptr<Coder> rans = make_coder(CoderKind::rans16, std::vector<uint32_t>{40000, 20000, 5536});
  BitStack stack;
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    stack.push(pair->extra, pair->bits);
    rans->encode(pair->code, stack);
  }
  CHECK(rans->state() == 0x684C20);
  CHECK(stack.bits() == 3);
}

TEST_CASE("coding_pairs: decoding may begin at every checkpoint") {
  const datasets::Matrix matrix = tests::bf16_matrix({40, 60});
  for (const std::string_view coder : coder_names()) {
    const backends::Settings chosen = settings({{"coder", std::string(coder)}, {"checkpoint_elements", "70"}});
    const backends::CompressedMatrix compressed = codecs::encode_matrix(entry(), matrix.view(), chosen);
    const Layout layout = layout_of(matrix.shape, chosen);
    REQUIRE(layout.segments == 35);
    REQUIRE(static_cast<int64_t>(compressed.sections[kCheckpoints].bytes.size()) == 35 * layout.entry_bytes());
    // A stream of the last segments alone, made of the same payload.
    const auto& index = compressed.sections[kCheckpoints].bytes;
    const auto& model = compressed.sections[kModel].bytes;
    const auto number = [](const std::vector<std::byte>& bytes, size_t at, int count) {
      uint64_t value = 0;
      for (int i = 0; i < count; ++i) value |= std::to_integer<uint64_t>(bytes[at + static_cast<size_t>(i)]) << (8 * i);
      return value;
    };
    const size_t codes = number(model, 0, 4), width = static_cast<size_t>(weight_bytes(layout.coder));
    std::vector<uint32_t> weights;
    for (size_t i = 0; i < codes; ++i)
      weights.push_back(static_cast<uint32_t>(number(model, 4 + 2 * codes + width * i, static_cast<int>(width))) +
                        (width == 2 ? 1 : 0));
    for (const size_t segment : {size_t{0}, size_t{1}, size_t{17}, size_t{34}}) {
      const auto decoder = make_coder(layout.coder, weights);
      codecs::modelling::BitReader reader(
          compressed.sections[kPayload].bytes,
          static_cast<int64_t>(number(index, segment * static_cast<size_t>(layout.entry_bytes()), kPositionBytes)));
      decoder->set_state(number(index, segment * static_cast<size_t>(layout.entry_bytes()) + kPositionBytes,
                                state_bytes(layout.coder)));
      for (size_t i = 70 * segment; i < std::min<size_t>(70 * (segment + 1), 2400); ++i) {
        const uint64_t code = number(model, 4 + 2 * decoder->decode(reader), 2), extra = reader.read(8);
        const uint64_t pattern = extra >> 7 << 15 | code << 7 | (extra & 127);
        if (pattern != element_at(matrix.view(), static_cast<int64_t>(i))) FAIL("element " << i << " by " << coder);
      }
    }
  }
}

TEST_CASE("coding_pairs: coders that cannot tell all codes apart refuse, others take them") {
  const datasets::Matrix matrix = tests::make_typed_matrix("values", ElementType::i16, {64, 64},
                                                           [](int64_t i) { return static_cast<uint64_t>(i); });
  const std::string refused =
      entry().codec->refuses(matrix.view(), settings({{"pairs", "direct"}, {"coder", "tans8"}}));
  CHECK(refused.find("4096 different codes") != std::string::npos);
  CHECK(entry().codec->refuses(matrix.view(), settings({{"pairs", "direct"}, {"coder", "tans16"}})) == "");
}
