// Claims about packed_ternary alone: the exact bytes, that all bytes read as they should, streams that lie, and kernels
// at shapes around strips, groups and blocks of rows.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/packed_ternary/format.h"
#include "codecs/registry.h"
#include "hwy/targets.h"
#include "tests/cpu_place.h"

namespace {

using namespace ecmv;
using namespace ecmv::codecs;
namespace format = ecmv::codecs::packed_ternary;

const CodecEntry& entry() { return *find_codec("packed_ternary"); }

datasets::Matrix ternary(datasets::Shape shape, unsigned seed) {
  std::mt19937 random(seed);
  datasets::Matrix matrix;
  matrix.shape = shape;
  for (int64_t i = 0; i < shape.elements(); ++i)
    matrix.elements.push_back(static_cast<std::byte>(static_cast<int>(random() % 3) - 1));
  return matrix;
}

CompressedMatrix encode(const datasets::Matrix& matrix) {
  return encode_matrix(entry(), matrix.view(), default_settings(*entry().codec));
}

void expect_malformed(const CompressedMatrix& compressed, const std::string& sentence) {
  std::vector<std::byte> out(static_cast<size_t>(compressed.shape.elements()));
  try {
    entry().codec->decode(compressed.view(), out);
    FAIL("accepted: " << sentence);
  } catch (const MalformedStream& e) {
    CHECK(std::string(e.what()) == sentence);
  }
}

}  // namespace

TEST_CASE("packed_ternary has five strips in a byte") {
  datasets::Matrix matrix;
  matrix.shape = {1, 320};
  matrix.elements.resize(320);
  const int first[] = {1, 0, -1, -1, 1};  // digits 2 1 0 0 2: 162 + 27 + 2 = 191, times 256 / 243: 201.2
  for (int strip = 0; strip < 5; ++strip) matrix.elements[64 * static_cast<size_t>(strip)] = std::byte(first[strip]);
  const CompressedMatrix compressed = encode(matrix);
  REQUIRE(compressed.sections.size() == 1);
  const std::vector<std::byte>& codes = compressed.sections[format::kCodes].bytes;
  REQUIRE(codes.size() == 1024);
  CHECK(codes[0] == std::byte{202});
  CHECK(codes[1] == std::byte{128});  // zeros: 121 * 256 / 243 = 127.5
  CHECK(codes[64] == std::byte{128});
  CHECK(compressed.sections[format::kCodes].padding_bytes == 1024 - 64);
}

TEST_CASE("packed_ternary reads the digits of every byte from the top") {
  std::set<int> bytes;
  for (int digits = 0; digits < 243; ++digits) {
    const int byte = format::stored_byte(digits);
    CHECK(byte < 256);
    bytes.insert(byte);
    for (int strip = 0, divisor = 81; strip < 5; ++strip, divisor /= 3)
      CHECK(format::leading_digits(byte, strip) == digits / divisor);
  }
  CHECK(bytes.size() == 243);
}

TEST_CASE("packed_ternary stores 1.6 bits where 320 divides the columns") {
  CHECK(8.0 * static_cast<double>(encode(ternary({64, 640}, 1)).stored_bytes()) / (64 * 640) == 1.6);
}

TEST_CASE("packed_ternary refuses other values") {
  datasets::Matrix matrix = ternary({3, 5}, 1);
  matrix.elements[7] = std::byte{2};
  CHECK(entry().codec->refuses(matrix.view(), {}) ==
        "packed_ternary stores the values -1, 0 and 1 only, and there is a 2.");
}

TEST_CASE("packed_ternary finds streams that lie") {
  const CompressedMatrix good = encode(ternary({17, 100}, 1));
  CompressedMatrix bad = good;
  bad.sections[0].bytes[5] = std::byte{20};
  expect_malformed(bad, "A byte of a packed_ternary stream is of no five digits.");
  bad = good;
  bad.sections[0].bytes[1024 + 64] = std::byte(format::stored_byte(0));  // row 17
  expect_malformed(bad, "What fills a packed_ternary stream up is not zero.");
  bad = good;
  bad.sections[0].bytes.pop_back();
  expect_malformed(bad, "The codes of a packed_ternary stream do not have the size that the shape asks for.");
  bad = good;
  bad.sections.clear();
  expect_malformed(bad, "A packed_ternary stream has one section.");
}

TEST_CASE("packed_ternary's CPU kernels are exact around strips, groups and blocks of rows") {
  for (const datasets::Shape shape :
       {datasets::Shape{1, 1}, {16, 64}, {17, 65}, {15, 319}, {32, 320}, {33, 321}, {5, 1003}}) {
    const datasets::Matrix matrix = ternary(shape, 3);
    const CompressedMatrix compressed = encode(matrix);
    std::vector<int8_t> x(static_cast<size_t>(shape.cols + backends::kVectorPaddingBytes));
    for (int64_t i = 0; i < shape.cols; ++i)
      x[static_cast<size_t>(i)] = static_cast<int8_t>(i % 5 == 0 ? -128 : 127 - i % 7);
    std::vector<int32_t> expected(static_cast<size_t>(shape.rows));
    const int8_t* w = matrix.view().i8().data();
    for (int64_t r = 0; r < shape.rows; ++r)
      for (int64_t c = 0; c < shape.cols; ++c)
        expected[static_cast<size_t>(r)] += w[r * shape.cols + c] * x[static_cast<size_t>(c)];
    const auto check = [&](std::string_view backend) {
      for (const backends::Kernel& kernel : entry().kernels(backend)) {
        const backends::BoundKernel bound = tests::bind_on_cpu(kernel, kernel.policies[0], compressed.view());
        INFO(backend << " " << kernel.variant << ", [" << shape.rows << ", " << shape.cols << "]");
        if (kernel.op == backends::Op::decode) {
          std::vector<std::byte> decoded(matrix.elements.size());
          bound.enqueue(nullptr, backends::DecodeArgs{.rows = {0, shape.rows}, .out = decoded.data()});
          CHECK(decoded == matrix.elements);
        } else {
          std::vector<int32_t> y(static_cast<size_t>(shape.rows));
          bound.enqueue(nullptr, backends::MatvecArgs{.rows = {0, shape.rows}, .x = x.data(), .y = y.data()});
          CHECK(y == expected);
        }
      }
    };
    check("scalar");
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      check("simd");
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}
