// Claims about packed_outliers alone: the bytes of a small matrix, the stored size that theory predicts, every kernel
// on every instruction set over shapes around its strips, and streams that lie.
#include <algorithm>
#include <random>

#include "codecs/packed_outliers/format.h"
#include "tests/int8_claims.h"

namespace {

using namespace ecmv;
using namespace ecmv::codecs;
namespace format = ecmv::codecs::packed_outliers;

const CodecEntry& entry() { return *find_codec("packed_outliers"); }

CompressedMatrix encode(const datasets::Matrix& matrix, int64_t bits) {
  return encode_matrix(entry(), matrix.view(), tests::settings_of(entry(), {{"bits", std::to_string(bits)}}));
}

std::vector<std::byte> decode(const CompressedMatrix& compressed) {
  std::vector<std::byte> out(compressed.shape.elements());
  entry().codec->decode(compressed.view(), out);
  return out;
}

double bits_per_element(const datasets::Matrix& matrix, int64_t bits) {
  return 8.0 * encode(matrix, bits).stored_bytes() / matrix.shape.elements();
}

std::vector<int> bytes_of(const CompressedMatrix& compressed, int section) {
  std::vector<int> out;
  for (std::byte b : compressed.sections[section].bytes) out.push_back(std::to_integer<int>(b));
  return out;
}

// Runs every kernel of a backend over the whole matrix, in two calls where it has two blocks.
void check_kernels(std::string_view backend, const CompressedMatrix& compressed, const datasets::Matrix& matrix) {
  const auto [rows, cols] = matrix.shape;
  const CompressedView view = compressed.view();
  std::mt19937 random(3);
  std::vector<int8_t> x(cols + backends::kVectorPaddingBytes, 0);
  for (int64_t i = 0; i < cols; ++i) x[i] = static_cast<int8_t>(random() & 255);
  std::vector<int32_t> expected(rows, 0);
  const int8_t* w = matrix.view().i8().data();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) expected[r] += w[r * cols + c] * x[c];

  for (const backends::Kernel& kernel : entry().kernels(backend))
    for (const backends::Policy& policy : kernel.policies) {
      const backends::BoundKernel bound = tests::bind_on_cpu(kernel, policy, view);
      REQUIRE(bound.facts.rows_per_block == format::kRowsPerBlock);
      REQUIRE(bound.facts.scratch_bytes == 0);
      std::vector<int32_t> y(rows, 0x5a5a5a5a);
      std::vector<int8_t> decoded(rows * cols + 64, 0x5a);
      const int64_t middle = std::min(format::kRowsPerBlock, rows);
      for (auto [begin, end] : {std::pair<int64_t, int64_t>{0, middle}, {middle, rows}}) {
        if (kernel.op == backends::Op::decode)
          bound.enqueue(nullptr,
                        backends::DecodeArgs{.rows = {begin, end},
                                             .out = reinterpret_cast<std::byte*>(decoded.data() + begin * cols)});
        else
          bound.enqueue(nullptr, backends::MatvecArgs{.rows = {begin, end}, .x = x.data(), .y = y.data()});
      }
      INFO(backend << " " << backends::op_name(kernel.op) << " " << policy.name << " [" << rows << ", " << cols << "] "
                   << compressed.settings.to_string());
      if (kernel.op == backends::Op::matvec) {
        CHECK(y == expected);
      } else {
        CHECK(std::equal(w, w + rows * cols, decoded.begin()));
        CHECK(std::all_of(decoded.end() - 64, decoded.end(), [](int8_t v) { return v == 0x5a; }));
      }
    }
}

}  // namespace

TEST_CASE("packed_outliers stores planes and records as format.h draws them", "[packed_outliers]") {
  // 40 columns: strips of 8, three of them empty. Window of 3 bits: -4..3.
  std::vector<int8_t> elements(40, 0);
  elements[0] = -4, elements[1] = 3, elements[2] = 20, elements[33] = -128;
  const datasets::Matrix matrix = tests::int8_matrix(1, 40, elements);
  const CompressedMatrix compressed = encode(matrix, 3);
  CHECK(bytes_of(compressed, format::kHeader) == std::vector<int>{3, 0xfc, 1, 8});
  const std::vector<int> fields = bytes_of(compressed, format::kFields);
  REQUIRE(fields.size() == 3 * 8 + 64);
  // Fields are 4 (zero) but for 0, 7, 7 (clamped 20) and 0 (clamped -128). Plane of 2 low bits, strips 0, 2, 4, 6 in
  // its first 8 bytes: only columns 1 and 2 have any. The third 8 bytes hold bit 2 of strips 0..4.
  CHECK(std::vector<int>(fields.begin(), fields.begin() + 8) == std::vector<int>{0, 3, 3, 0, 0, 0, 0, 0});
  CHECK(std::vector<int>(fields.begin() + 8, fields.begin() + 16) == std::vector<int>(8, 0));
  CHECK(std::vector<int>(fields.begin() + 16, fields.begin() + 24) ==
        std::vector<int>{0x1e, 0x0f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f});
  CHECK(std::all_of(fields.begin() + 24, fields.end(), [](int b) { return b == 0; }));
  CHECK(bytes_of(compressed, format::kBlocks) == std::vector<int>{0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0});
  CHECK(bytes_of(compressed, format::kDistances) == std::vector<int>{2, 31});
  CHECK(bytes_of(compressed, format::kDeltas) == std::vector<int>{17, 0x84});
  CHECK(decode(compressed) == matrix.elements);
}

TEST_CASE("packed_outliers stores what clamping and 12-bit records predict", "[packed_outliers]") {
  // 0.008 bit of index at most, beside the fields and 12 to 14 bits an outlier (shares: 7e-5, 0.79 %, 4.6 %).
  const datasets::Matrix four = tests::sampled_gaussian(256, 4096, 4.0);
  CHECK(bits_per_element(four, 5) > 5.0);
  CHECK(bits_per_element(four, 5) < 5.008);
  CHECK(bits_per_element(four, 4) < 4.60);
  CHECK(bits_per_element(four, 0) == bits_per_element(four, 4));
  CHECK(bits_per_element(tests::sampled_gaussian(256, 4096, 6.0), 5) < 5.13);
  CHECK(bits_per_element(tests::sampled_gaussian(256, 4096, 8.0), 5) < 5.61);
  CHECK(bits_per_element(tests::sampled_gaussian(256, 4096, 8.0), 6) < 6.008);
}

TEST_CASE("packed_outliers with bits 0 takes the fewest bytes of all widths", "[packed_outliers]") {
  for (double sigma : {0.3, 1.0, 2.5, 7.74, 30.0}) {
    const datasets::Matrix matrix = tests::sampled_gaussian(40, 700, sigma);
    int64_t least = INT64_MAX;
    for (int64_t bits = 1; bits <= 8; ++bits) least = std::min(least, encode(matrix, bits).stored_bytes());
    CHECK(encode(matrix, 0).stored_bytes() == least);
  }
}

TEST_CASE("packed_outliers kernels are exact at every width and shape on every instruction set", "[packed_outliers]") {
  std::vector<std::pair<datasets::Matrix, int64_t>> cases;
  std::mt19937 random(5);
  for (int64_t bits = 1; bits <= 8; ++bits) {
    for (int64_t cols : {1, 31, 33, 511, 512, 513, 1000, 1536})
      cases.push_back({tests::sampled_gaussian(19, cols, 3.0 * bits), bits});
    std::vector<int8_t> uniform(17 * 600);
    for (int8_t& v : uniform) v = static_cast<int8_t>(random() & 255);
    cases.push_back({tests::int8_matrix(17, 600, uniform), bits});
    std::vector<int8_t> high(20 * 640, 127);  // a window far from zero, deltas that need two records
    for (size_t i = 0; i < high.size(); i += 977) high[i] = -128;
    cases.push_back({tests::int8_matrix(20, 640, high), bits});
  }
  std::vector<int8_t> rare(33 * 5000, 1);  // distances of two bytes, across rows and beyond 65535
  rare[3] = 77, rare[70000] = -77, rare[33 * 5000 - 1] = 99;
  cases.push_back({tests::int8_matrix(33, 5000, rare), 2});
  cases.push_back({tests::int8_matrix(0, 64, {}), 0});
  cases.push_back({tests::int8_matrix(5, 0, {}), 0});

  std::vector<CompressedMatrix> compressed;
  for (const auto& [matrix, bits] : cases) {
    compressed.push_back(encode(matrix, bits));
    REQUIRE(decode(compressed.back()) == matrix.elements);
    REQUIRE(compressed.back().stored_bytes() <=
            entry().codec->max_stored_bytes(matrix.shape, compressed.back().settings));
    check_kernels("scalar", compressed.back(), matrix);
  }
  for (int64_t targets = hwy::SupportedTargets() & ~int64_t{HWY_SSE2 | HWY_SSSE3}; targets != 0;
       targets &= targets - 1) {
    hwy::SetSupportedTargetsForTest(targets & -targets);
    INFO(hwy::TargetName(targets & -targets));
    for (size_t i = 0; i < cases.size(); ++i) check_kernels("simd", compressed[i], cases[i].first);
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST_CASE("packed_outliers refuses streams that lead outside", "[packed_outliers]") {
  const datasets::Matrix matrix = tests::sampled_gaussian(40, 100, 8.0);
  const CompressedMatrix good = encode(matrix, 4);
  const auto damaged = [&](int section, size_t at, int value) {
    CompressedMatrix bad = good;
    bad.sections[section].bytes[at] = std::byte(value);
    return bad;
  };
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 0, 0)), MalformedStream);
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 0, 9)), MalformedStream);
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 1, 120)), MalformedStream);   // window beyond 127
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 2, 3)), MalformedStream);     // distances of three bytes
  CHECK_THROWS_AS(decode(damaged(format::kBlocks, 15, 255)), MalformedStream);  // a block that begins far away
  for (int section = 0; section < format::kSections; ++section) {
    CompressedMatrix shorter = good, none = good;
    shorter.sections[section].bytes.pop_back();
    none.sections.erase(none.sections.begin() + section);
    CHECK_THROWS_AS(decode(shorter), MalformedStream);
    CHECK_THROWS_AS(decode(none), MalformedStream);
  }
  // All distances at their longest lead out of the block; all deltas at their largest out of int8.
  CompressedMatrix far = good, large = encode(tests::sampled_gaussian(40, 100, 60.0), 6);
  std::fill(far.sections[format::kDistances].bytes.begin(), far.sections[format::kDistances].bytes.end(),
            std::byte{255});
  std::fill(large.sections[format::kDeltas].bytes.begin(), large.sections[format::kDeltas].bytes.end(), std::byte{127});
  CHECK_THROWS_AS(decode(far), MalformedStream);
  CHECK_THROWS_AS(decode(large), MalformedStream);
}

TEST_CASE("packed_outliers counts the bytes past the fields and fields without a column as padding") {
  for (int64_t bits = 1; bits <= 8; ++bits) {
    INFO(bits);
    // 33 columns are strips of 8: 64 fields a row.
    CHECK(encode(tests::sampled_gaussian(3, 33, 4), bits).padding_bytes() == 64 + 3 * 31 * bits / 8);
    CHECK(encode(tests::sampled_gaussian(3, 512, 4), bits).padding_bytes() == 64);
  }
}
