// Claims about this codec alone: sizes near the entropy, exactness where its models do not fit, places of raw bits, and
// register kernels that agree with the reference on every instruction set.
#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/rans_byte_planes/deltas.h"
#include "codecs/rans_byte_planes/format.h"
#include "codecs/rans_byte_planes/model.h"
#include "codecs/registry.h"
#include "hwy/highway.h"
#include "tests/cpu_place.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::codecs;
namespace planes = ecmv::codecs::rans_byte_planes;

namespace {

const CodecEntry& entry() { return *find_codec("rans_byte_planes"); }

Settings with(const std::map<std::string, std::string>& given) {
  std::vector<std::string> errors;
  Settings settings = resolve_settings(entry().codec->settings, given, errors);
  REQUIRE(errors.empty());
  return settings;
}

double size_over_entropy(const datasets::Matrix& matrix, const Settings& settings) {
  const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), settings);
  const double bits =
      8.0 * static_cast<double>(compressed.stored_bytes()) / static_cast<double>(matrix.shape.elements());
  return bits / datasets::entropy_bits_per_element(matrix.view());
}

void check_reference(const datasets::Matrix& matrix, const Settings& settings) {
  INFO(settings.to_string() << " on " << matrix.name << " [" << matrix.shape.rows << ", " << matrix.shape.cols << "]");
  const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), settings);
  std::vector<std::byte> decoded(matrix.elements.size());
  entry().codec->decode(compressed.view(), decoded);
  CHECK(decoded == matrix.elements);
}

// Every kernel of both backends, one enqueue a block, against plain loops.
void check_kernels(const datasets::Matrix& matrix, const Settings& settings) {
  const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), settings);
  const CompressedView view = compressed.view();
  const int64_t rows = matrix.shape.rows, cols = matrix.shape.cols;
  const std::span<const int8_t> elements = matrix.view().i8();
  tests::Random random{9};
  std::vector<int8_t> x(cols + backends::kVectorPaddingBytes, 0);
  for (int64_t c = 0; c < cols; ++c) x[c] = static_cast<int8_t>(random.next());
  std::vector<int32_t> expected(rows, 0);
  for (int64_t i = 0; i < rows * cols; ++i) expected[i / cols] += elements[i] * x[i % cols];
  for (const auto kernels : {entry().cpu_kernels, entry().simd_kernels})
    for (const backends::Kernel& kernel : kernels)
      for (const backends::Policy& policy : kernel.policies) {
        if (!kernel.refuses(view, {}, policy).empty()) continue;
        INFO(settings.to_string() << " on " << matrix.name << " [" << rows << ", " << cols << "], policy "
                                  << policy.name);
        const backends::BoundKernel bound = tests::bind_on_cpu(kernel, policy, view);
        const int64_t block = bound.facts.rows_per_block;
        std::vector<std::byte> scratch(bound.facts.scratch_bytes), decoded(elements.size() + 1, std::byte{99});
        std::vector<int32_t> y(rows, -1);
        for (int64_t row = 0; row < rows; row += block) {
          const backends::Rows range{row, std::min(rows, row + block)};
          if (kernel.op == backends::Op::matvec)
            bound.enqueue(
                nullptr,
                backends::MatvecArgs{
                    .rows = range, .x = x.data(), .y = y.data(), .v = nullptr, .scale = 0, .scratch = scratch.data()});
          else
            bound.enqueue(nullptr, backends::DecodeArgs{
                                       .rows = range, .out = decoded.data() + row * cols, .scratch = scratch.data()});
        }
        if (kernel.op == backends::Op::matvec) {
          CHECK(y == expected);
        } else {
          CHECK(std::memcmp(decoded.data(), elements.data(), elements.size()) == 0);
          CHECK(decoded.back() == std::byte{99});
        }
      }
}

std::vector<datasets::Matrix> awkward_matrices() {
  std::vector<datasets::Matrix> out;
  for (double sigma : {0.3, 1.0, 4.0, 7.74, 32.0}) {
    out.push_back(tests::gaussian_matrix({40, 500}, sigma));
    out.push_back(tests::gaussian_matrix({7, 1537}, sigma));
    out.push_back(tests::gaussian_matrix({16, 4096}, sigma));
  }
  out.push_back(tests::make_matrix("constant", {60, 300}, [](int64_t) { return -128; }));
  out.push_back(tests::make_matrix("two_extremes", {60, 300},
                                   [](int64_t i) { return (i * 2654435761u >> 13) & 1 ? -128 : 127; }));
  out.push_back(tests::make_matrix("all_values", {60, 300},
                                   [](int64_t i) { return static_cast<int>((i * 2654435761u >> 7) & 255) - 128; }));
  out.push_back(tests::make_matrix("rare_values", {200, 1000}, [](int64_t i) {
    return i % 30011 == 7 ? -128 : i % 977 == 3 ? static_cast<int>(i % 251) - 125 : 0;
  }));
  out.push_back(tests::make_matrix("sorted", {64, 512}, [](int64_t i) { return static_cast<int>(i / 128) - 128; }));
  return out;
}

}  // namespace

TEST_CASE("rans_byte_planes: raw bits of a round have places of their own and fill their bytes") {
  for (int values = 1; values <= 3; ++values)
    for (int raw_bits = 0; raw_bits <= planes::max_raw_bits(values); ++raw_bits) {
      INFO(values << " values, " << raw_bits << " raw bits");
      std::vector<int> used(values * raw_bits, 0);
      for (int step = 0; step < planes::kSteps; ++step)
        for (int position = 0; position < values; ++position) {
          const planes::Placement placement = planes::place(values, raw_bits, step, position);
          int index_mask = 0;
          for (int n = 0; n < placement.count; ++n) {
            const planes::Piece piece = placement.pieces[n];
            CHECK((index_mask & piece.mask) == 0);
            index_mask |= piece.mask;
            const int bits = piece.shift >= 0 ? piece.mask << piece.shift : piece.mask >> -piece.shift;
            REQUIRE(bits < 256);
            REQUIRE(std::popcount(static_cast<unsigned>(bits)) == std::popcount(piece.mask));
            REQUIRE(piece.vector < values * raw_bits);
            CHECK((used[piece.vector] & bits) == 0);
            used[piece.vector] |= bits;
          }
          CHECK(index_mask == planes::raw_mask(values, raw_bits, position));
          CHECK(std::popcount(static_cast<unsigned>(index_mask)) == raw_bits);
          CHECK((index_mask & planes::class_mask(values, position)) == 0);
        }
      for (int byte : used) CHECK(byte == 255);
    }
}

TEST_CASE("rans_byte_planes: the stored size stays within the excess that was asked for") {
  for (double sigma : {4.0, 7.74}) {
    const datasets::Matrix matrix = tests::gaussian_matrix({2048, 4096}, sigma);
    INFO("sigma " << sigma);
    CHECK(size_over_entropy(matrix, with({})) <= 1.010);
    CHECK(size_over_entropy(matrix, with({{"excess", "35"}})) <= 1.035);
    CHECK(size_over_entropy(matrix, with({{"values_per_symbol", "1"}})) <= 1.010);
  }
}

TEST_CASE("rans_byte_planes: pairs are small enough to be most of what the default excess buys") {
  const datasets::Matrix matrix = tests::gaussian_matrix({2048, 4096}, 4);
  CHECK(size_over_entropy(matrix, with({{"values_per_symbol", "2"}, {"prob_bits", "8"}})) <= 1.012);
  const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), with({}));
  planes::Header header;
  std::memcpy(&header, compressed.sections[planes::kTables].bytes.data(), sizeof header);
  planes::Form form;
  std::memcpy(&form, compressed.sections[planes::kTables].bytes.data() + sizeof header, sizeof form);
  CHECK(form.values == 2);
  CHECK(header.first_share >= 128);
}

planes::Model& first_model(CompressedMatrix& matrix) {
  return *reinterpret_cast<planes::Model*>(matrix.sections[planes::kTables].bytes.data() + sizeof(planes::Header));
}

TEST_CASE("rans_byte_planes: frequent symbols in steps of four cost next to nothing") {
  const datasets::Matrix matrix = tests::gaussian_matrix({2048, 4096}, 4);
  const auto size = [&](const char* values, const char* raw_bits, const char* prob_bits) {
    return size_over_entropy(matrix,
                             with({{"values_per_symbol", values}, {"raw_bits", raw_bits}, {"prob_bits", prob_bits}}));
  };
  CHECK(size("2", "2", "fours") <= size("2", "2", "8") + 0.001);
  CHECK(size("1", "0", "fours") <= size("1", "0", "8") + 0.001);
  CompressedMatrix compressed =
      encode_matrix(entry(), matrix.view(), with({{"values_per_symbol", "2"}, {"prob_bits", "fours"}}));
  const planes::Model& model = first_model(compressed);
  CHECK(model.form.runs == planes::kFours);
  for (int slot = 0; slot < planes::kFourSlots; ++slot) CHECK(model.symbol[slot] == model.symbol[slot & ~3]);
}

TEST_CASE("rans_byte_planes: with too few symbols for steps of four there are none") {
  const datasets::Matrix matrix = tests::make_matrix("two_values", {64, 512}, [](int64_t i) { return i % 3 == 0; });
  CompressedMatrix compressed =
      encode_matrix(entry(), matrix.view(), with({{"values_per_symbol", "1"}, {"prob_bits", "fours"}}));
  CHECK(first_model(compressed).form.runs == planes::kAnyRuns);
}

TEST_CASE("rans_byte_planes: slots that are not in the runs that the form says are refused") {
  const datasets::Matrix matrix = tests::gaussian_matrix({64, 4096}, 4);
  for (uint8_t runs : {planes::kTwos, planes::kFours, planes::kRunsCount}) {
    CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), with({{"prob_bits", "8"}}));
    first_model(compressed).form.runs = runs;
    std::vector<std::byte> out(static_cast<size_t>(matrix.shape.elements()));
    CHECK_THROWS_AS(entry().codec->decode(compressed.view(), out), MalformedStream);
  }
}

TEST_CASE("rans_byte_planes: deltas that are not listed are the shortest sums of those that are") {
  const planes::DeltaSums sums({6, -6});
  CHECK(sums.count(0) == 0);
  CHECK(sums.count(-6) == 1);
  CHECK(sums.count(252) == 42);
  CHECK(sums.count(3) == -1);
  CHECK(sums.last_number(-12) == 1);
  const planes::DeltaSums any(std::vector<int>(planes::kAnySum.begin(), planes::kAnySum.end()));
  for (int delta = -planes::kMaxDelta; delta <= planes::kMaxDelta; ++delta) {
    CHECK(any.count(delta) >= 0);
    CHECK(any.count(delta) <= 8);
  }
}

TEST_CASE("rans_byte_planes: what does not fit the model is exact, in every form") {
  for (const datasets::Matrix& matrix : awkward_matrices())
    for (int values = 0; values <= 3; ++values)
      for (int raw_bits = -1; raw_bits <= (values == 0 ? -1 : planes::max_raw_bits(values)); ++raw_bits)
        for (const char* prob_bits : {"7", "8", "fours"})
          check_reference(matrix, with({{"values_per_symbol", std::to_string(values)},
                                        {"raw_bits", std::to_string(raw_bits)},
                                        {"prob_bits", prob_bits}}));
}

TEST_CASE("rans_byte_planes: kernels put in exceptions of many rows at once, and of rows that have none") {
  // One element of `distance` has no class of its own.
  const auto rare = [](datasets::Shape shape, int64_t distance) {
    return tests::make_matrix("rare", shape, [=](int64_t i) {
      const auto random = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u >> 40;
      return static_cast<int>(random % static_cast<uint64_t>(distance) == 0 ? random >> 9 & 127 : random & 7);
    });
  };
  for (const auto& [rows, cols] :
       {std::pair<int64_t, int64_t>{20000, 1}, {9000, 3}, {1500, 15}, {1000, 64}, {2, 60000}})
    for (int64_t distance : {40, 1000, 9000})
      for (const char* values : {"1", "2", "3"})
        check_kernels(rare({rows, cols}, distance), with({{"values_per_symbol", values}, {"raw_bits", "1"}}));
  // More columns than places in vectors are exact for.
  check_kernels(rare({2, (1 << 22) + 5}, 1000), with({{"values_per_symbol", "2"}, {"raw_bits", "1"}}));
}

TEST_CASE("rans_byte_planes: bf16 of every pattern is exact, and its kernels decode it on every instruction set") {
  const auto of = [](const char* name, datasets::Shape shape, const auto& bits) {
    return tests::make_typed_matrix(name, datasets::ElementType::bf16, shape, bits);
  };
  const std::vector<datasets::Matrix> matrices = {
      tests::bf16_matrix({40, 500}),
      tests::bf16_matrix({7, 1537}),
      tests::bf16_matrix({3, 33}, 1e-30),
      of("all_patterns", {256, 256}, [](int64_t i) { return static_cast<uint16_t>(i); }),
      of("scattered", {61, 190}, [](int64_t i) { return static_cast<uint16_t>(uint64_t(i) * 2654435761u >> 11); }),
      of("zeros", {64, 100}, [](int64_t i) { return static_cast<uint16_t>(i % 2 << 15); }),
      of("rare", {200, 1000}, [](int64_t i) { return static_cast<uint16_t>(i % 977 == 3 ? i : 0x3c80 + i % 300); })};
  for (const datasets::Matrix& matrix : matrices)
    for (const char* excess : {"0", "60", "1000"})
      for (const char* block : {"0", "4096"}) {
        const Settings settings = with({{"excess", excess}, {"block_elements", block}});
        check_reference(matrix, settings);
        const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), settings);
        for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
          hwy::SetSupportedTargetsForTest(target);
          for (const auto kernels : {entry().cpu_kernels, entry().simd_kernels})
            for (const backends::Kernel& kernel : kernels)
              for (const backends::Policy& policy : kernel.policies) {
                if (kernel.op != backends::Op::decode || !kernel.refuses(compressed.view(), {}, policy).empty())
                  continue;
                INFO(hwy::TargetName(target)
                     << " " << matrix.name << " " << policy.name << " " << settings.to_string());
                const backends::BoundKernel bound = tests::bind_on_cpu(kernel, policy, compressed.view());
                std::vector<std::byte> scratch(bound.facts.scratch_bytes), decoded(matrix.elements.size() + 1);
                decoded.back() = std::byte{99};
                const int64_t step = bound.facts.rows_per_block;
                for (int64_t row = 0; row < matrix.shape.rows; row += step)
                  bound.enqueue(nullptr, backends::DecodeArgs{.rows = {row, std::min(matrix.shape.rows, row + step)},
                                                              .out = decoded.data() + 2 * row * matrix.shape.cols,
                                                              .scratch = scratch.data()});
                CHECK(decoded.back() == std::byte{99});
                decoded.pop_back();
                CHECK(decoded == matrix.elements);
              }
        }
        hwy::SetSupportedTargetsForTest(0);
      }
}

TEST_CASE("rans_byte_planes: a block of bf16 with exceptions in its head is refused, for kernels would not see them") {
  const Settings settings = with({{"block_elements", "65536"}, {"values_per_symbol", "2"}, {"raw_bits", "1"}});
  const datasets::Matrix floats = tests::bf16_matrix({256, 256});
  const auto exponent = [&](int64_t i) {
    uint16_t element;
    std::memcpy(&element, &floats.elements[static_cast<size_t>(2 * i)], 2);
    return static_cast<int>(planes::coded_exponent(element));
  };
  const datasets::Matrix exponents = tests::make_matrix("exponents", floats.shape, exponent);
  CompressedMatrix stored = encode_matrix(entry(), floats.view(), settings);
  const CompressedMatrix bytes = encode_matrix(entry(), exponents.view(), settings);
  std::vector<std::byte> decoded(floats.elements.size());
  entry().codec->decode(stored.view(), decoded);
  CHECK(decoded == floats.elements);
  for (size_t s = 0; s < planes::kSectionCount; ++s) stored.sections[s] = bytes.sections[s];
  CHECK_THROWS_AS(entry().codec->decode(stored.view(), decoded), MalformedStream);
  // The parts of each alone are whole.
  std::vector<std::byte> decoded_exponents(exponents.elements.size());
  entry().codec->decode(bytes.view(), decoded_exponents);
  CHECK(decoded_exponents == exponents.elements);
}

TEST_CASE("rans_byte_planes: of bf16 only exponents are coded, near their entropy") {
  const datasets::Matrix matrix = tests::bf16_matrix({1024, 2048});
  std::map<int, double> counts;
  for (size_t i = 0; i < matrix.elements.size(); i += 2) {
    uint16_t element;
    std::memcpy(&element, &matrix.elements[i], 2);
    ++counts[element >> 7 & 255];
    CHECK(planes::bf16_of(planes::coded_exponent(element), planes::fraction(element)) == element);
  }
  const double elements = static_cast<double>(matrix.shape.elements());
  double entropy = 0;
  for (const auto& [exponent, count] : counts) entropy -= count / elements * std::log2(count / elements);
  for (const auto& [excess, limit] : {std::pair("10", 1.011), {"60", 1.061}}) {
    const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), with({{"excess", excess}}));
    const double bits = 8.0 * static_cast<double>(compressed.stored_bytes()) / elements;
    INFO(excess << ": " << bits << " bits, entropy of exponents " << entropy);
    CHECK(bits - 8 < limit * entropy + 0.03);  // states and empty heads of 256 Ki elements
  }
}

TEST_CASE("rans_byte_planes: every kernel agrees with plain loops on every instruction set") {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    INFO(hwy::TargetName(target));
    for (const datasets::Matrix& matrix : awkward_matrices())
      for (int values = 0; values <= 3; ++values)
        for (int raw_bits = -1; raw_bits <= (values == 0 ? -1 : planes::max_raw_bits(values)); ++raw_bits)
          for (const char* block : {"4096", "2097152"})
            check_kernels(matrix, with({{"values_per_symbol", std::to_string(values)},
                                        {"raw_bits", std::to_string(raw_bits)},
                                        {"excess", "20"},
                                        {"block_elements", block}}));
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST_CASE("rans_byte_planes: the register kernels say which instructions they need") {
  const datasets::Matrix matrix = tests::gaussian_matrix({16, 512}, 4);
  const CompressedMatrix compressed = encode_matrix(entry(), matrix.view(), with({}));
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    const backends::Kernel& kernel = entry().simd_kernels[0];
    const std::string reason = kernel.refuses(compressed.view(), {}, kernel.policies[0]);
    INFO(hwy::TargetName(target));
    CHECK(reason.empty() == (target == HWY_AVX3_DL || target == HWY_AVX3_ZEN4 || target == HWY_AVX3_SPR));
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST_CASE("rans_byte_planes: fixed-point logarithms are right to their last place") {
  CHECK(planes::log2_fixed(1) == 0);
  CHECK(planes::log2_fixed(2) == 1 << 16);
  CHECK(planes::log2_fixed(uint64_t{1} << 63) == 63 << 16);
  CHECK(planes::log2_fixed(3) == 103872);         // 65536 * 1.5849625 = 103872.1
  CHECK(planes::log2_fixed(1000000) == 1306235);  // 65536 * 19.9315686 = 1306235.3
}
