// Claims about tile_rans alone: levels that are exact, the document's bytes, how symbols are dealt to lanes, hostile
// streams, products of all kernels with batches of tokens.
#include <catch2/catch_test_macros.hpp>

#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "backends/backend.h"
#include "backends/exact_product.h"
#include "backends/pass.h"
#include "codecs/compressed_matrix.h"
#include "codecs/registry.h"
#include "codecs/tile_rans/encode.h"
#include "codecs/tile_rans/levels.h"
#include "codecs/tile_rans/tests/test_streams.h"
#include "tests/cpu_place.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs::tile_rans {

using namespace test_streams;
using datasets::ElementType;

TEST_CASE(
    "tile_rans multiplies batches of tokens within float32's bound on every instruction set, from any tile row on") {
  std::vector<Settings> some;
  for (const char* coder : {"rans", "huffman_lanes", "packed"}) some.push_back(settings_of({{"coder", coder}}));
  some.push_back(settings_of({{"coder", "huffman_lanes"}, {"tile", "64x512"}, {"symbol_cols", "2"}}));
  for (const Settings& settings : some)
    for (const datasets::Matrix& matrix : {gaussian16({130, 97}), tests::bf16_matrix({70, 600}), gaussian16({1, 1}),
                                           gaussian16({3, 0}), gaussian16({0, 3})}) {
      const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), settings);
      const CompressedView view = compressed.view();
      const std::vector<std::byte> elements = decoded(compressed);
      for (const int batch : {1, 3, 64}) {
        const Product product(matrix, elements, batch);
        for (const char* backend : {"scalar", "simd"})
          for (const backends::Kernel& kernel : entry().kernels(backend)) {
            if (kernel.op != backends::Op::matmul) continue;
            const int64_t targets = std::string(backend) == "simd" ? hwy::SupportedTargets() : 1;
            for (int64_t rest = targets; rest != 0; rest &= rest - 1) {
              if (targets != 1) hwy::SetSupportedTargetsForTest(rest & -rest);
              INFO(settings.to_string() << " " << tests::describe(matrix) << " batch " << batch << " " << backend);
              std::vector<float> y(product.y.size(), 1e30f);
              const backends::BoundKernel bound = tests::bind_on_cpu(kernel, view, batch);
              hwy::AlignedVector<std::byte> scratch(static_cast<size_t>(bound.facts.scratch_bytes));
              // The second tile row first.
              const int64_t rows = matrix.shape.rows;
              const int64_t middle = std::min(bound.facts.rows_per_block, rows);
              for (const backends::Rows part : {backends::Rows{middle, rows}, backends::Rows{0, middle}})
                if (part.count() > 0)
                  bound.enqueue(nullptr, backends::MatmulArgs{.rows = part,
                                                              .x = product.x.data(),
                                                              .x_stride = product.x_stride,
                                                              .y = y.data(),
                                                              .y_stride = rows,
                                                              .scratch = scratch.data()});
              CHECK(product.worst(y.data(), matrix.shape, backends::ProductRounding{}) <= 1);
              if (targets != 1) hwy::SetSupportedTargetsForTest(0);
            }
          }
      }
    }
}

TEST_CASE("tile_rans round-trips partial tiles of any shape with every coder") {
  for (const Settings& settings : all_settings())
    for (const datasets::Shape shape :
         {datasets::Shape{1, 1}, {64, 64}, {65, 63}, {17, 300}, {130, 33}, {200, 129}, {3, 700}}) {
      const datasets::Matrix matrix = gaussian16(shape);
      INFO(settings.to_string() << " on " << shape.rows << "x" << shape.cols);
      const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), settings);
      REQUIRE(decoded(compressed) == matrix.elements);
      REQUIRE(compressed.stored_bytes() <= entry().codec->max_stored_bytes(shape, settings));
    }
}

TEST_CASE("tile_rans keeps floats within half a step of levels that are numbers of their type") {
  for (const auto type : {ElementType::bf16, ElementType::f16, ElementType::f32})
    for (const double scale : {0.02, 3000.0, 1e-6})
      for (const double offset : {0.0, 10.0, -300.0}) {
        tests::Random random{8};
        const datasets::Matrix matrix = tests::make_typed_matrix("weights", type, {64, 96}, [&](int64_t) -> uint64_t {
          const double value = scale * (offset + random.normal());
          if (type == ElementType::bf16) return datasets::nearest_bf16(value);
          if (type == ElementType::f32) return std::bit_cast<uint32_t>(static_cast<float>(value));
          return (random.next() & 0x83FF) | 0x3000 | (random.next() % 4 << 10);
        });
        INFO(datasets::element_type_name(type) << " " << scale << " " << offset);
        const Levels levels = fit_levels(matrix.view());
        CHECK(static_cast<double>(levels.zero_point) == static_cast<double>(levels.first) * levels.scale);
        for (const char* coder : {"rans", "huffman_lanes", "packed"}) {
          const Settings settings = settings_of({{"coder", coder}});
          const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), settings);
          const ErrorBound bound = entry().codec->error_bound(matrix.view(), settings);
          CHECK(bound.absolute == levels.scale / 2);
          const std::vector<std::byte> out = decoded(compressed);
          CHECK(check_bound(matrix.view(), out, bound).violation == "");
          // The elements are the levels as fmaf in float32 has them.
          const std::vector<uint8_t> symbols = symbols_of(matrix.view(), levels);
          std::vector<double> numbers(symbols.size());
          datasets::read_numbers({matrix.shape, type, out}, 0, numbers);
          for (size_t i = 0; i < symbols.size(); ++i)
            REQUIRE(numbers[i] == std::fmaf(symbols[i], levels.scale, levels.zero_point));
        }
      }
}

TEST_CASE("the step of Gaussian bf16 weights is at most a sixteenth wider than a fifteenth of their range") {
  const datasets::Matrix matrix = tests::bf16_matrix({256, 256});
  std::vector<double> numbers(256 * 256);
  datasets::read_numbers(matrix.view(), 0, numbers);
  const auto [least, greatest] = std::minmax_element(numbers.begin(), numbers.end());
  CHECK(fit_levels(matrix.view()).scale <= (*greatest - *least) / 15 * 17 / 16 * 1.07);
}

TEST_CASE("tile_rans refuses what has no 16 levels, with the reason") {
  const Settings settings = settings_of({});
  const auto refuses = [&](const datasets::Matrix& matrix) { return entry().codec->refuses(matrix.view(), settings); };
  CHECK(refuses(tests::make_matrix("17 values", {1, 17}, [](int64_t i) {
          return static_cast<int>(i);
        })).find("from 0 to 16") != std::string::npos);
  CHECK(refuses(tests::make_matrix("16 values", {1, 16}, [](int64_t i) { return static_cast<int>(i) - 100; })) == "");
  CHECK(refuses(tests::make_typed_matrix("NaN", ElementType::bf16, {1, 2}, [](int64_t i) {
          return i == 0 ? 0x7FC0 : 0;
        })).find("NaN") != std::string::npos);
  CHECK(refuses(tests::make_typed_matrix("u8", ElementType::u8, {1, 2}, [](int64_t) { return 1; })).find("u8") !=
        std::string::npos);
  CHECK(entry().codec->refuses(gaussian16({2, 2}).view(), settings_of({{"streams", "5"}})).find("not 5") !=
        std::string::npos);
}

// By hand: two symbols, frequencies 1024 (of -1) and 3072 (of 0) of 4096, four streams of one or two symbols. A stream
// begins with 2^23 = x; coding 0 makes x / 3072 * 4096 + 1024 + x % 3072, coding -1 x / 1024 * 4096 + x % 1024.
TEST_CASE("tile_rans stores these exact bytes as the document has them") {
  const int elements[] = {0, 0, -1, 0, 0, 0, 0, -1};
  const datasets::Matrix matrix = tests::make_matrix("eight", {2, 4}, [&](int64_t i) { return elements[i]; });
  const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), settings_of({{"streams", "4"}}));
  const auto word = [&](int section, size_t i) {
    return word_at(compressed.sections[static_cast<size_t>(section)].bytes.data() + 4 * i);
  };
  CHECK(compressed.sections[kLayer].bytes.size() == 16);
  CHECK(std::bit_cast<float>(word(kLayer, 0)) == 1.0f);
  CHECK(std::bit_cast<float>(word(kLayer, 1)) == -1.0f);
  CHECK((word(kLayer, 2) == 1 && word(kLayer, 3) == 1));
  CHECK(compressed.sections[kTables].bytes.size() == 32);
  CHECK(word(kTables, 0) == (1024u | 3072u << 16));
  CHECK((word(kIndex, 0) == 0 && word(kIndex, 1) == 8));
  const auto zero = [](uint32_t x) { return x / 3072 * 4096 + 1024 + x % 3072; };
  const auto one = [](uint32_t x) { return x / 1024 * 4096 + x % 1024; };
  const uint32_t lower = 1u << 23;
  CHECK(word(kCodes, 0) == zero(zero(lower)));
  CHECK(word(kCodes, 1) == zero(zero(lower)));
  CHECK(word(kCodes, 2) == one(zero(lower)));
  CHECK(word(kCodes, 3) == zero(one(lower)));
  CHECK(compressed.sections[kCodes].bytes.size() == 16);
}

TEST_CASE("an entry of huffman_lanes says columns and length whatever they are") {
  for (const int cols : {2, 4})
    for (uint32_t symbol = 0; symbol < kLaneSymbols; ++symbol)
      for (uint32_t length = 1; length <= kMostTableBits; ++length) {
        const uint32_t entry = huffman_entry(cols, symbol, length);
        REQUIRE(length_of_entry(cols, entry) == length);
        REQUIRE(symbol_of_entry(cols, entry) == symbol);
        for (int col = 0; cols == 4 && col < 4; ++col)
          REQUIRE((entry >> (8 * col) & 0xC) == (symbol >> (2 * col) & 3) << 2);
        if (cols == 4) REQUIRE((entry & 0xF0F0F0F0u) == 0);
      }
}

// By hand: a quad of levels 0, 0, 0, 4, all others zeros, filled up to 8 panels. Two symbols, 0 and 64, have codes of
// one bit, 0 and 1. A lane's 32 codes are a word, too few for a block of lines, so all words are tails.
TEST_CASE("huffman_lanes stores these exact bytes") {
  const datasets::Matrix matrix = tests::make_matrix("four", {1, 4}, [](int64_t i) { return i == 3 ? 4 : 0; });
  const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), settings_of({{"coder", "huffman_lanes"}}));
  const auto word = [&](int section, size_t i) {
    return word_at(compressed.sections[static_cast<size_t>(section)].bytes.data() + 4 * i);
  };
  const auto size = [&](int section) { return compressed.sections[static_cast<size_t>(section)].bytes.size(); };
  CHECK((size(kLayer) == 20 && word(kLayer, 4) == 1));
  REQUIRE(size(kTables) == 4096);
  for (size_t i = 0; i < 1024; ++i) REQUIRE(word(kTables, i) == (i % 2 == 0 ? 0x00000001u : 0x04000001u));
  REQUIRE(size(kIndex) == 16);
  CHECK((word(kIndex, 0) == 0 && word(kIndex, 1) == 0 && word(kIndex, 2) == 9 && word(kIndex, 3) == 0));
  REQUIRE(size(kCodes) == 16 + 128);
  for (size_t i = 0; i < 4; ++i) CHECK(word(kCodes, i) == 0x11111111u);
  for (size_t lane = 0; lane < 32; ++lane) CHECK(word(kCodes, 4 + lane) == (lane == 0 ? 1u : 0u));
  REQUIRE(size(kRaw) == 1024);
  for (size_t i = 0; i < 256; ++i) REQUIRE(word(kRaw, i) == 0);
}

TEST_CASE("tile_rans is as small as its notes say") {
  const datasets::Matrix matrix = gaussian16({512, 2048});
  const auto bits = [&](const std::map<std::string, std::string>& given) {
    return 8.0 * static_cast<double>(encode_matrix(entry(), matrix.view(), settings_of(given)).stored_bytes()) /
           static_cast<double>(matrix.shape.elements());
  };
  const double entropy = datasets::entropy_bits_per_element(matrix.view());
  CHECK(std::fabs(entropy - 3.06) < 0.02);
  CHECK(bits({{"coder", "packed"}}) < 4.001);
  CHECK(bits({{"coder", "rans"}, {"streams", "4"}}) < entropy + 0.15);
  CHECK(bits({{"coder", "huffman_lanes"}, {"symbol_cols", "2"}, {"tile", "64x512"}, {"table_bits", "11"}}) <
        entropy + 0.14);
  CHECK(bits({{"coder", "huffman_lanes"}, {"symbol_cols", "4"}, {"tile", "64x256"}}) < entropy + 0.4);
}

TEST_CASE("hostile tile_rans streams are refused in every coder") {
  const datasets::Matrix matrix = gaussian16({70, 130});
  for (const Settings& settings : all_settings()) {
    INFO(settings.to_string());
    const CompressedMatrix whole = encode_matrix(entry(), matrix.view(), settings);
    tests::Random random{4};
    int threw = 0, tried = 0;
    for (size_t s = 0; s < whole.sections.size(); ++s)
      for (int i = 0; i < 25 && !whole.sections[s].bytes.empty(); ++i) {
        CompressedMatrix damaged = whole;
        std::vector<std::byte>& bytes = damaged.sections[s].bytes;
        if (i < 5)
          bytes.resize(bytes.size() * static_cast<size_t>(i) / 5);
        else
          bytes[random.next() % bytes.size()] ^= static_cast<std::byte>(1 + random.next() % 255);
        bytes.shrink_to_fit();
        ++tried;
        try {
          (void)decoded(damaged);
        } catch (const MalformedStream& e) {
          CHECK(std::string_view(e.what()).back() == '.');
          ++threw;
        }
      }
    CHECK(threw > tried / 8);
  }
}

TEST_CASE("huffman_lanes refuses full lines that no lane needs, which kernels have no room for") {
  const datasets::Matrix matrix = tests::make_matrix("constant", {64, 64}, [](int64_t) { return 3; });
  CompressedMatrix damaged = encode_matrix(entry(), matrix.view(), settings_of({{"coder", "huffman_lanes"}}));
  REQUIRE(decoded(damaged) == matrix.elements);
  // Strings of one bit a symbol, all zero: right with any number of lines of zeros, and no tails.
  const auto with_lines = [&](uint32_t lines) {
    damaged.sections[kCodes].bytes.assign(kCountBytes + lines * size_t{kLineBytes}, std::byte{0});
    const uint32_t index[] = {0, lines, static_cast<uint32_t>(damaged.sections[kCodes].bytes.size() / kCodesAlign), 0};
    std::memcpy(damaged.sections[kIndex].bytes.data(), index, sizeof index);
    std::memcpy(damaged.sections[kLayer].bytes.data() + kLayerBytes, &lines, 4);
  };
  with_lines(kBlockLines);
  CHECK(decoded(damaged) == matrix.elements);
  for (const uint32_t lines : {2u * kBlockLines, 4000u}) {
    with_lines(lines);
    CHECK_THROWS_AS(decoded(damaged), MalformedStream);
  }
}

// Tokens of ordinary numbers, with one element far above the others, of zeros, and of very small and very large
// numbers.
std::vector<float> hard_tokens(int64_t cols, int batch) {
  std::vector<float> tokens;
  tests::Random random{31};
  for (int t = 0; t < batch; ++t)
    for (int64_t c = 0; c < cols; ++c) {
      const double value = random.normal() * (c == cols / 2 ? 1e5 : 1);
      tokens.push_back(static_cast<float>(t % 5 == 1   ? 0
                                          : t % 5 == 2 ? value * 0x1p-140
                                          : t % 5 == 3 ? value * 0x1p100
                                                       : value));
    }
  return tokens;
}

// Products of one layer by every GPU kernel and policy there is, held to the bound; calls seen(results, what they are
// of). Returns how many there were.
template <typename F>
int check_gpu_products(const datasets::Matrix& matrix, const std::vector<Settings>& all, int batch, F seen,
                       backends::Activations activations = backends::Activations::f32) {
  std::vector<float> tokens = hard_tokens(matrix.shape.cols, batch);
  if (activations == backends::Activations::bf16)
    for (float& token : tokens)
      token = std::bit_cast<float>(uint32_t{datasets::nearest_bf16(static_cast<double>(token))} << 16);
  std::vector<std::byte> elements(matrix.elements.size());
  const CompressedMatrix first = encode_matrix(entry(), matrix.view(), all[0]);  // levels are the same of all
  entry().codec->decode(first.view(), elements);
  const backends::ExactProduct exact = backends::exact_product({matrix.shape, matrix.type, elements}, tokens, batch);
  int ran = 0;
  for (const backends::Backend& backend : backends::all_backends())
    for (const backends::DeviceInfo& info : backend.devices()) {
      if (!info.unavailable.empty() || info.wave_size == 0) continue;
      const auto device = backend.open({1, info.simd_target});
      for (const Settings& settings : all) {
        const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), settings);
        const auto uploaded = device->upload(compressed);
        for (const backends::Kernel& kernel : entry().kernels(backend.id))
          for (const backends::Policy& policy : kernel.policies) {
            if (kernel.op != backends::Op::matmul || kernel.activations != activations ||
                !kernel.refuses(uploaded->view(), device->info(), policy).empty())
              continue;
            INFO(settings.to_string() << " " << policy.name << " on " << backend.id << " " << info.simd_target
                                      << ", batch " << batch);
            backends::PassPlan plan;
            plan.kernel = &kernel;
            plan.policy = &policy;
            plan.op = backends::Op::matmul;
            plan.layers = {uploaded.get()};
            plan.chained = false;
            plan.batch = batch;
            plan.activations = activations;
            plan.tokens = {tokens};
            const auto pass = backends::prepare(*device, plan);
            pass->poison_outputs(0);
            pass->run();
            const std::vector<float> got(pass->products(0).begin(), pass->products(0).end());
            REQUIRE(backends::check_product(got, exact, pass->rounding(0)).violation == "");
            REQUIRE(pass->broken_guards() == "");
            seen(got);
            ++ran;
          }
      }
    }
  return ran;
}

TEST_CASE(
    "GPU products of tile_rans are the same bits whatever the coder, tile, policy and wave, and within the bound") {
  const datasets::Matrix matrix = gaussian16({70, 140});
  for (const int batch : {1, 4, 40}) {
    std::vector<Settings> some;
    for (const Settings& settings : all_settings())
      if (batch == 1 || (settings.integer("table_bits") != 9 && settings.text("tile").substr(0, 4) != "64x2" &&
                         settings.text("tile").substr(0, 4) != "64x5"))
        some.push_back(settings);
    std::optional<std::vector<float>> first;
    const int ran = check_gpu_products(matrix, some, batch, [&](const std::vector<float>& got) {
      if (!first) first = got;
      REQUIRE(got == *first);
    });
    if (ran == 0) SKIP("this build has no GPU backend");
  }
}

TEST_CASE("products of packed tiles with tokens of bf16 keep the bound in tiles and steps of any part, of every type") {
  std::vector<datasets::Matrix> matrices;
  for (const datasets::Shape shape : {datasets::Shape{1, 1}, {17, 33}, {70, 140}, {130, 641}, {33, 1100}})
    matrices.push_back(gaussian16(shape));
  matrices.push_back(tests::bf16_matrix({70, 600}));
  matrices.push_back(tests::make_typed_matrix("f32", ElementType::f32, {40, 300}, [](int64_t i) -> uint64_t {
    return std::bit_cast<uint32_t>(0.37f * static_cast<float>(i * 40503 % 97 - 30));
  }));
  matrices.push_back(
      tests::make_matrix("far", {40, 300}, [](int64_t i) { return 112 + static_cast<int>(i * 7 % 16); }));
  const std::vector<Settings> some = {settings_of({{"coder", "packed"}})};
  int ran = 0;
  for (const datasets::Matrix& matrix : matrices)
    for (const int batch : {1, 9, 33})
      ran += check_gpu_products(
          matrix, some, batch, [](const std::vector<float>&) {}, backends::Activations::bf16);
  if (ran == 0) SKIP("this build has no GPU backend");
  CHECK(ran >= static_cast<int>(matrices.size()) * 3 * 4);
}

TEST_CASE("huffman_lanes has room for lanes whose strings are very different") {
  // Columns of every fourth lane are random, the others' all zero: one lane's string is far longer than its
  // neighbours', beyond what counts of tails reach.
  tests::Random random{77};
  const datasets::Matrix matrix = tests::make_matrix("lanes", {70, 600}, [&](int64_t i) {
    const auto value = static_cast<int>(random.next() % 16) - 8;
    return i % 600 % 16 < 4 ? value : 0;
  });
  std::vector<Settings> some;
  for (const char* tile : {"64x64", "64x512"})
    for (const char* cols : {"2", "4"})
      some.push_back(
          settings_of({{"coder", "huffman_lanes"}, {"tile", tile}, {"symbol_cols", cols}, {"table_bits", "12"}}));
  for (const Settings& settings : some) {
    const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), settings);
    REQUIRE(decoded(compressed) == matrix.elements);
    REQUIRE(compressed.stored_bytes() <= entry().codec->max_stored_bytes(matrix.shape, settings));
  }
  if (check_gpu_products(matrix, some, 1, [](const std::vector<float>&) {}) == 0) SKIP("this build has no GPU backend");
}

}  // namespace ecmv::codecs::tile_rans
