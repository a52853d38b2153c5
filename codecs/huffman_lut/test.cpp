// Claims about huffman_lut alone: exact bytes of both layouts, stored size against the entropy, refusal of wide
// alphabets and of damaged tables, and kernels over all combinations of tuple, streams and raw bits.
#include <algorithm>
#include <cmath>
#include <random>

#include "backends/backend.h"
#include "backends/pass.h"
#include "codecs/huffman_lut/format.h"
#include "tests/int8_claims.h"

namespace {

using namespace ecmv;
using backends::CompressedMatrix;
using codecs::MalformedStream;
namespace hierarchical = codecs::huffman_lut::hierarchical;
namespace single_level = codecs::huffman_lut::single_level;

const codecs::CodecEntry& huffman_lut() { return *codecs::find_codec("huffman_lut"); }

backends::Settings settings(const tests::Given& given) { return tests::settings_of(huffman_lut(), given); }
const std::map<std::string, std::string> kHierarchical = {{"layout", "hierarchical"}};

CompressedMatrix encode(const std::vector<int8_t>& elements, int64_t rows, int64_t cols, const tests::Given& given) {
  REQUIRE(huffman_lut().codec->refuses(tests::int8_view(elements, rows, cols), settings(given)) == "");
  return codecs::encode_matrix(huffman_lut(), tests::int8_view(elements, rows, cols), settings(given));
}

std::vector<int8_t> decoded(const CompressedMatrix& compressed) {
  return tests::decoded_int8(huffman_lut(), compressed);
}

std::vector<int> values(const backends::Section& section) {
  std::vector<int> out;
  for (const std::byte byte : section.bytes) out.push_back(std::to_integer<int>(byte));
  return out;
}

double entropy(const std::vector<int8_t>& elements) {
  std::map<int8_t, double> counts;
  for (const int8_t element : elements) ++counts[element];
  double bits = 0;
  for (const auto& [element, count] : counts) bits -= count * std::log2(count / static_cast<double>(elements.size()));
  return bits / static_cast<double>(elements.size());
}

void set_u32(backends::Section& section, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) section.bytes[at + i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
}

// Every kernel of this layout, on every instruction set, from every block of rows, against plain loops.
int check_kernels(const CompressedMatrix& compressed, const std::vector<int8_t>& elements) {
  const int64_t rows = compressed.shape.rows, cols = compressed.shape.cols;
  const backends::CompressedView matrix = compressed.view();
  const auto x = hwy::AllocateAligned<int8_t>(static_cast<size_t>(cols + backends::kVectorPaddingBytes));
  std::mt19937 random(5);
  for (int64_t i = 0; i < cols + backends::kVectorPaddingBytes; ++i)
    x[i] = i < cols ? static_cast<int8_t>(random()) : 0;
  std::vector<int32_t> expected(static_cast<size_t>(rows), 0);
  for (int64_t i = 0; i < rows * cols; ++i)
    expected[static_cast<size_t>(i / cols)] += elements[static_cast<size_t>(i)] * x[i % cols];
  int ran = 0;
  const auto check = [&](const backends::Kernel& kernel) {
    if (!kernel.refuses(matrix, {}, kernel.policies[0]).empty()) return;
    ++ran;
    const backends::BoundKernel bound = tests::bind_on_cpu(kernel, matrix);
    const int64_t step = bound.facts.rows_per_block;
    const auto scratch = hwy::AllocateAligned<std::byte>(static_cast<size_t>(bound.facts.scratch_bytes) + 64);
    for (int64_t begin = 0; begin < rows; begin += step) {
      const int64_t end = begin == 0 ? rows : std::min(rows, begin + step);
      std::vector<int32_t> y(static_cast<size_t>(rows), 123456789);
      std::vector<int8_t> out(static_cast<size_t>((end - begin) * cols), 77);
      const backends::Rows range{begin, end};
      if (kernel.op == backends::Op::matvec) {
        bound.enqueue(nullptr, backends::MatvecArgs{range, x.get(), y.data(), nullptr, 0, scratch.get()});
        for (int64_t row = 0; row < rows; ++row)
          REQUIRE(y[static_cast<size_t>(row)] ==
                  (row >= begin && row < end ? expected[static_cast<size_t>(row)] : 123456789));
      } else {
        bound.enqueue(nullptr, backends::DecodeArgs{range, reinterpret_cast<std::byte*>(out.data()), scratch.get()});
        REQUIRE(std::equal(out.begin(), out.end(), elements.begin() + static_cast<ptrdiff_t>(begin * cols)));
      }
    }
  };
  for (const backends::Kernel& kernel : huffman_lut().cpu_kernels) check(kernel);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    CAPTURE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    for (const backends::Kernel& kernel : huffman_lut().simd_kernels) check(kernel);
  }
  hwy::SetSupportedTargetsForTest(0);
  return ran;
}

}  // namespace

TEST_CASE("huffman_lut_hierarchical_stores_exactly_these_bytes") {
  // Counts 5, 2, 1 and the end symbol: codes 0, 10, 110 and 111. Bits 0000 1010 1100, then ones.
  const std::vector<int8_t> elements{-3, -3, -3, -3, -2, -2, -1, -3};
  const CompressedMatrix compressed = encode(elements, 2, 4, kHierarchical);
  CHECK(values(compressed.sections[hierarchical::kEncoded]) == std::vector<int>{0x0a, 0xcf, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(values(compressed.sections[hierarchical::kOutputPositions]) == std::vector<int>{0, 0, 0, 0, 8, 0, 0, 0});
  CHECK(values(compressed.sections[hierarchical::kGaps]) == std::vector<int>{0, 0});
  CHECK(values(compressed.sections[hierarchical::kOffset]) == std::vector<int>{0xfd, 0xff, 0xff, 0xff});
  const std::vector<int> luts = values(compressed.sections[hierarchical::kLuts]);
  REQUIRE(luts.size() == 512);
  CHECK(luts[0] == 0);
  CHECK(luts[127] == 0);
  CHECK(luts[128] == 1);
  CHECK(luts[191] == 1);
  CHECK(luts[192] == 2);
  CHECK(luts[223] == 2);
  CHECK(std::vector<int>(luts.begin() + 256, luts.begin() + 260) == std::vector<int>{1, 2, 3, 0});
  CHECK(decoded(compressed) == elements);
}

TEST_CASE("huffman_lut_single_level_stores_exactly_these_bytes") {
  // Pairs (5,5) three times and (5,7) once: one bit each, and unit k goes to stream k.
  const std::vector<int8_t> elements{5, 5, 5, 5, 5, 7, 5, 5};
  const CompressedMatrix pairs = encode(elements, 1, 8, {{"tuple", "2"}, {"streams", "4"}, {"raw_bits", "0"}});
  CHECK(values(pairs.sections[single_level::kStreams]) == std::vector<int>{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  std::vector<int> code(sizeof(single_level::CodeHeader), 0);
  code[0] = 5;   // lowest
  code[10] = 2;  // two codes of one bit
  code.insert(code.end(), {0x00, 0x00, 0x00, 0x02});
  CHECK(values(pairs.sections[single_level::kCode]) == code);
  CHECK(values(pairs.sections[single_level::kBlocks]).size() == 64);
  CHECK(decoded(pairs) == elements);
  // One raw bit: from 4 on, 4 and 5 have the same high part, so there is a single tuple.
  const CompressedMatrix raw = encode({4, 5, 4, 5, 5, 5, 4, 4, 5}, 1, 9, {{"tuple", "2"}, {"raw_bits", "1"}});
  CHECK(raw.sections[single_level::kStreams].bytes.size() == single_level::kStreamPadding);  // which takes no bits
  // Two bytes: field k of byte i is column 2 k + i.
  CHECK(values(raw.sections[single_level::kRawBits]) == std::vector<int>{0b00010100, 0b0111});
}

TEST_CASE("huffman_lut_size_is_near_the_entropy") {
  for (const double sigma : {4.0, 7.74}) {
    CAPTURE(sigma);
    const std::vector<int8_t> elements = tests::gaussian_int8(1 << 21, sigma, 1);
    const double entropy_bits = entropy(elements);
    const auto bits = [&](const CompressedMatrix& compressed, bool with_index) {
      return 8.0 *
             static_cast<double>(compressed.stored_bytes() -
                                 (with_index ? 0 : compressed.stored_bytes(backends::Role::index))) /
             static_cast<double>(elements.size());
    };
    // A Huffman code and its index: 5 bits a 64 coded ones, 32 bits a 32768.
    const CompressedMatrix tables = encode(elements, 1024, 2048, kHierarchical);
    CHECK(bits(tables, false) <= 1.015 * entropy_bits);
    CHECK(bits(tables, true) <= 1.015 * entropy_bits * (1 + 5.0 / 64 + 32.0 / 32768) + 0.001);
    CHECK(bits(encode(elements, 1024, 2048, {{"tuple", "2"}}), true) <= 1.015 * entropy_bits);
    CHECK(bits(encode(elements, 1024, 2048, {}), true) <= 1.035 * entropy_bits);
    CHECK(bits(encode(elements, 1024, 2048, {{"table_bits", "14"}}), true) <= 1.025 * entropy_bits);
  }
}

TEST_CASE("huffman_lut_hierarchical_keeps_to_sixteen_subtables") {
  // Flat tails need more than 16 prefixes of 8 bits under plain Huffman lengths.
  std::vector<int8_t> wide = tests::gaussian_int8(400000, 33.0, 2);
  for (int8_t& element : wide) element = std::clamp<int8_t>(element, -120, 119);
  const CompressedMatrix compressed = encode(wide, 400, 1000, kHierarchical);
  CHECK(compressed.sections[hierarchical::kLuts].bytes.size() <= 18 * 256);
  CHECK(8.0 * static_cast<double>(compressed.stored_bytes(backends::Role::payload)) / 400000 <= 1.015 * entropy(wide));
  CHECK(decoded(compressed) == wide);
  CHECK(check_kernels(compressed, wide) == 2);

  // Every value more frequent than all before together: codes of up to 17 bits, three levels of tables.
  std::vector<int8_t> deep;
  for (int value = -10; value < 7; ++value)
    deep.insert(deep.end(), deep.size() * 6 / 5 + 2, static_cast<int8_t>(value));
  std::shuffle(deep.begin(), deep.end(), std::mt19937(4));
  const CompressedMatrix deep_compressed = encode(deep, 1, static_cast<int64_t>(deep.size()), kHierarchical);
  CHECK(*std::max_element(deep_compressed.sections[0].bytes.end() - 256, deep_compressed.sections[0].bytes.end()) >
        std::byte{16});
  CHECK(decoded(deep_compressed) == deep);
  CHECK(check_kernels(deep_compressed, deep) == 2);
}

TEST_CASE("huffman_lut_hierarchical_refuses_alphabets_beyond_240_values") {
  const std::vector<int8_t> fits{-128, 111}, too_wide{-128, 112};
  CHECK(huffman_lut().codec->refuses(tests::int8_view(fits, 1, 2), settings(kHierarchical)) == "");
  CHECK(huffman_lut()
            .codec->refuses(tests::int8_view(too_wide, 1, 2), settings(kHierarchical))
            .find("span 241 (-128 to 112)") != std::string::npos);
  CHECK(huffman_lut().codec->refuses(tests::int8_view(too_wide, 1, 2), settings({})) == "");
  CHECK(decoded(encode(fits, 1, 2, kHierarchical)) == fits);
}

TEST_CASE("huffman_lut_hierarchical_refuses_damaged_tables_and_index") {
  const std::vector<int8_t> elements = tests::gaussian_int8(60000, 12.0, 3);
  const CompressedMatrix good = encode(elements, 60, 1000, kHierarchical);
  REQUIRE(decoded(good) == elements);
  REQUIRE(good.sections[hierarchical::kOutputPositions].bytes.size() > 8);
  const auto damaged = [&](auto change) {
    CompressedMatrix bad = good;
    change(bad.sections);
    return bad;
  };
  using Sections = std::vector<backends::Section>;
  const size_t lengths_row = good.sections[hierarchical::kLuts].bytes.size() - 256;
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { std::fill_n(s[0].bytes.begin(), 256, std::byte{240}); })),
                  MalformedStream);
  // A table that points to itself must end too.
  CHECK_THROWS_AS(
      decoded(damaged([&](Sections& s) { std::fill(s[0].bytes.begin(), s[0].bytes.end() - 256, std::byte{255}); })),
      MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) {
                    std::fill(s[0].bytes.begin() + static_cast<ptrdiff_t>(lengths_row), s[0].bytes.end(), std::byte{0});
                  })),
                  MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) {
                    std::fill(s[0].bytes.begin() + static_cast<ptrdiff_t>(lengths_row), s[0].bytes.end(),
                              std::byte{200});
                  })),
                  MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { set_u32(s[hierarchical::kOutputPositions], 4, 0xffffffff); })),
                  MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s[hierarchical::kOutputPositions].bytes.resize(4); })),
                  MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s[hierarchical::kGaps].bytes.resize(5); })), MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s[hierarchical::kGaps].bytes[700] ^= std::byte{0x10}; })),
                  MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s[hierarchical::kEncoded].bytes.resize(1000); })),
                  MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s[0].bytes.resize(256); })), MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s.pop_back(); })), MalformedStream);
}

TEST_CASE("huffman_lut_single_level_refuses_damaged_streams") {
  std::vector<int8_t> elements = tests::gaussian_int8(30000, 4.0, 3);
  elements[100] = 127;
  const CompressedMatrix good = encode(elements, 30, 1000, {{"block_elements", "10000"}});
  REQUIRE(decoded(good) == elements);
  const auto damaged = [&](auto change) {
    CompressedMatrix bad = good;
    change(bad.sections);
    return bad;
  };
  using Sections = std::vector<backends::Section>;
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s[single_level::kCode].bytes.resize(20); })), MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s[single_level::kCode].bytes[4] = std::byte{8}; })),
                  MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { set_u32(s[single_level::kCode], 0, 1000); })), MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s[single_level::kCode].bytes[10] ^= std::byte{1}; })),
                  MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { set_u32(s[single_level::kBlocks], 16, 0xffffffff); })),
                  MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { set_u32(s[single_level::kBlocks], 16, 1); })), MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { set_u32(s[single_level::kBlocks], 48, 0x7fffffff); })),
                  MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) {
                    std::fill(s[single_level::kPatches].bytes.begin(), s[single_level::kPatches].bytes.end(),
                              std::byte{0xff});
                  })),
                  MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s[single_level::kPatches].bytes.clear(); })), MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s[single_level::kRawBits].bytes.pop_back(); })), MalformedStream);
  CHECK_THROWS_AS(decoded(damaged([&](Sections& s) { s[single_level::kStreams].bytes.resize(8); })), MalformedStream);
}

TEST_CASE("huffman_lut_patches_reach_every_value") {
  // Nearly all zeros, so that extremes are outside the window and their tuples too rare for a code.
  std::vector<int8_t> elements = tests::gaussian_int8(200000, 0.4, 9);
  for (size_t i = 0; i < 256; ++i) elements[i * 700 + i % 5] = static_cast<int8_t>(i - 128);
  elements[199999] = -128;
  elements[1] = 127;
  for (const char* tuple : {"2", "4"})
    for (const char* raw_bits : {"-1", "0", "3"}) {
      CAPTURE(tuple, raw_bits);
      const CompressedMatrix compressed =
          encode(elements, 2, 100000, {{"tuple", tuple}, {"raw_bits", raw_bits}, {"block_elements", "1000000"}});
      CHECK(decoded(compressed) == elements);
      CHECK(check_kernels(compressed, elements) > 2);
    }
}

TEST_CASE("huffman_lut_kernels_are_exact_for_every_form") {
  std::mt19937 random(8);
  for (const char* tuple : {"2", "4"})
    for (const char* streams : {"4", "8", "16"})
      for (int raw_bits = 0; raw_bits < 8; ++raw_bits) {
        const int64_t cols = std::vector<int64_t>{
            1, 63, 97, 256, 300, 511, 4096, 4500}[static_cast<size_t>(raw_bits + random() % 8) % 8];
        const int64_t rows = 1 + static_cast<int64_t>(random() % 7);
        CAPTURE(tuple, streams, raw_bits, rows, cols);
        const double sigma = raw_bits < 2 ? 1.5 : raw_bits < 5 ? 7.0 : 60.0;
        const std::vector<int8_t> elements = tests::gaussian_int8(rows * cols, sigma, static_cast<unsigned>(random()));
        const CompressedMatrix compressed = encode(elements, rows, cols,
                                                   {{"tuple", tuple},
                                                    {"streams", streams},
                                                    {"raw_bits", std::to_string(raw_bits)},
                                                    {"table_bits", std::to_string(10 + raw_bits % 5)},
                                                    {"block_elements", "600"}});
        CHECK(decoded(compressed) == elements);
        CHECK(check_kernels(compressed, elements) > 2);
      }
}

namespace {

// Every GPU kernel, of the layout hierarchical, on the emulator's two devices; how many ran.
int check_emulated(const CompressedMatrix& compressed, const std::vector<int8_t>& elements) {
  const backends::Backend* emulator = backends::find_backend("emulator");
  const int64_t rows = compressed.shape.rows, cols = compressed.shape.cols;
  int ran = 0;
  for (const backends::DeviceInfo& info : emulator->devices()) {
    const auto device = emulator->open({1, info.simd_target});
    const auto uploaded = device->upload(compressed);
    backends::PassPlan plan;
    plan.layers = {uploaded.get()};
    plan.inputs.emplace_back();
    std::mt19937 random(6);
    for (int64_t i = 0; i < cols; ++i) plan.inputs[0].push_back(static_cast<int8_t>(random()));
    plan.scales = {1e-3f};
    std::vector<int32_t> expected(static_cast<size_t>(rows), 0);
    for (int64_t i = 0; i < rows * cols; ++i)
      expected[static_cast<size_t>(i / cols)] +=
          elements[static_cast<size_t>(i)] * plan.inputs[0][static_cast<size_t>(i % cols)];
    for (const backends::Kernel& kernel : huffman_lut().kernels("emulator"))
      for (const backends::Policy& policy : kernel.policies) {
        if (!kernel.refuses(uploaded->view(), device->info(), policy).empty()) continue;
        CAPTURE(kernel.variant, policy.name, info.simd_target);
        plan.kernel = &kernel;
        plan.op = kernel.op;
        plan.policy = &policy;
        const auto pass = backends::prepare(*device, plan);
        for (int round = 0; round < 2; ++round) {
          pass->poison_outputs(round);
          pass->run();
          CHECK((kernel.op == backends::Op::decode ? std::ranges::equal(pass->decoded(), elements)
                                                   : std::ranges::equal(pass->accumulators(0), expected)));
          CHECK(pass->broken_guards() == "");
        }
        ++ran;
      }
  }
  return ran;
}

// To be called outside of assertions, which take a skip for a failure.
void skip_without_emulator() {
  for (const backends::DeviceInfo& info : backends::find_backend("emulator")->devices())
    if (!info.unavailable.empty()) SKIP(info.unavailable);
}

}  // namespace

TEST_CASE("huffman_lut_gpu_kernels_walk_tables_of_every_depth", "[emulator]") {
  skip_without_emulator();
  std::vector<int8_t> wide = tests::gaussian_int8(60000, 33.0, 2), deep, constant(60000, -7), binary;
  for (int8_t& element : wide) element = std::clamp<int8_t>(element, -120, 119);
  for (int value = -10; value < 7; ++value)
    deep.insert(deep.end(), deep.size() * 6 / 5 + 2, static_cast<int8_t>(value));
  std::shuffle(deep.begin(), deep.end(), std::mt19937(4));
  deep.resize(200000);
  std::mt19937 random(3);
  for (int i = 0; i < 300000; ++i)
    binary.push_back(random() % 8 == 0 ? 3 : -4);  // 64 elements a thread, several blocks
  for (const std::vector<int8_t>& elements : {wide, deep, constant, binary})
    for (const int64_t cols : {int64_t{1}, int64_t{50}, int64_t{1000}, static_cast<int64_t>(elements.size())}) {
      CAPTURE(elements.size(), cols);
      CHECK(check_emulated(encode(elements, static_cast<int64_t>(elements.size()) / cols, cols, kHierarchical),
                           elements) == 8);
    }
}
