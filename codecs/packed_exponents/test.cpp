// Claims about packed_exponents beyond those that hold for every codec: its exact bytes and sizes, tails and records on
// every instruction set, and streams that lie.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "codecs/packed_exponents/format.h"
#include "codecs/registry.h"
#include "hwy/targets.h"
#include "tests/cpu_place.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs {
namespace {

namespace format = packed_exponents;

const CodecEntry& entry() { return *find_codec("packed_exponents"); }
CompressedMatrix encode(const datasets::Matrix& matrix) { return encode_matrix(entry(), matrix.view(), {}); }
std::vector<std::byte> decode(const CompressedMatrix& compressed) {
  std::vector<std::byte> out(static_cast<size_t>(2 * compressed.shape.elements()));
  entry().codec->decode(compressed.view(), out);
  return out;
}
template <class F>
datasets::Matrix bf16(const char* name, datasets::Shape shape, const F& bits) {
  return tests::make_typed_matrix(name, datasets::ElementType::bf16, shape, bits);
}
// Ordinary weights; one of 61 is far smaller, one of 67 far larger, one of 71 zero, one of 73 not finite.
datasets::Matrix with_records(datasets::Shape shape) {
  return bf16("with_records", shape, [](int64_t i) {
    const uint16_t sign_and_mantissa = static_cast<uint16_t>((i * 40503) & 0x807f);
    const int exponent = i % 61 == 60   ? 3
                         : i % 67 == 66 ? 250
                         : i % 71 == 70 ? 0
                         : i % 73 == 72 ? 255
                                        : 110 + static_cast<int>(i * 2654435761u >> 13) % 16;
    return static_cast<uint16_t>(sign_and_mantissa | exponent << 7);
  });
}

}  // namespace

TEST_CASE("packed_exponents stores the lines and records that format.h describes") {
  // Exponents 100 to 115 have codes; element 5 is 1.0, whose exponent is 127.
  const datasets::Matrix matrix = bf16("worked", {1, 100}, [](int64_t i) {
    return i == 5 ? 0x3f80 : i == 96 ? 0x8000 | 115 << 7 | 0x2a : i == 97 ? 114 << 7 : 100 << 7 | 1;
  });
  const CompressedMatrix compressed = encode(matrix);
  REQUIRE(compressed.sections.size() == format::kSections);
  const auto& fields = compressed.sections[format::kFields].bytes;
  REQUIRE(fields.size() == 192 + 64);
  const auto word = [&](size_t i) {
    uint16_t bits;
    std::memcpy(&bits, &fields[2 * i], 2);
    return bits;
  };
  CHECK(std::to_integer<int>(compressed.sections[format::kHeader].bytes[0]) == 100);
  // Strip 3 has columns 96 to 99. Column 96: code 15, whose upper three bits are 14..12; its sign is in the next word.
  CHECK(word(0) == 7 << 12);
  CHECK(word(1) == (7 << 12 | 1 << 3));  // column 97: code 14
  CHECK(word(2) == 0);
  CHECK(word(5) == 7 << 8);                   // column 5: clamped to code 15
  CHECK(word(32 + 5) == (0x01 << 8 | 0x80));  // code 15's lowest bit; column 37 has mantissa 1
  CHECK(word(64) == (0xaa << 8 | 0x01));      // columns 96 and 64
  CHECK(word(65) == 0x01);                    // columns 97 and 65
  CHECK(word(64 + 4) == 0x01);                // no column 100
  std::vector<uint32_t> records(1);
  REQUIRE(compressed.sections[format::kRecords].bytes.size() == 4);
  std::memcpy(records.data(), compressed.sections[format::kRecords].bytes.data(), 4);
  CHECK(records[0] == (127u << 24 | 5u));
  CHECK(decode(compressed) == matrix.elements);
}

TEST_CASE("packed_exponents stores 12 bits, and counts columns that do not exist as padding") {
  const auto weights = [](datasets::Shape shape) { return encode(tests::bf16_matrix(shape)); };
  const CompressedMatrix whole = weights({256, 1024});
  const double bits = 8.0 * static_cast<double>(whole.stored_bytes()) / (256 * 1024);
  CHECK(bits > 12);
  CHECK(bits < 12.02);
  CHECK(whole.padding_bytes() == 64);
  // A row's last 64 columns take 128 bytes instead of 96.
  CHECK(weights({16, 2880}).padding_bytes() == 64 + 16 * 32);
  CHECK(weights({16, 1000}).padding_bytes() == 64 + 16 * 36);
}

TEST_CASE("packed_exponents decodes rests of blocks and groups and all records on every instruction set") {
  std::vector<datasets::Matrix> matrices = {
      bf16("all_patterns", {256, 256}, [](int64_t i) { return static_cast<uint16_t>(i); }),
      bf16("zeros", {20, 200}, [](int64_t i) { return static_cast<uint16_t>(i % 2 << 15); })};
  for (const int64_t rows : {1, 15, 16, 17, 33})
    for (const int64_t cols : {1, 31, 32, 33, 63, 64, 65, 96, 97, 127, 128, 129, 192, 193, 256, 320, 448})
      matrices.push_back(with_records({rows, cols}));
  for (const datasets::Matrix& matrix : matrices) {
    INFO(matrix.name << " " << matrix.shape.rows << " x " << matrix.shape.cols);
    const CompressedMatrix compressed = encode(matrix);
    REQUIRE(decode(compressed) == matrix.elements);
    REQUIRE(compressed.stored_bytes() <=
            entry().codec->max_stored_bytes({matrix.shape.rows, 2 * matrix.shape.cols}, {}));
    for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      INFO(hwy::TargetName(target));
      for (const auto kernels : {entry().cpu_kernels, entry().simd_kernels})
        for (const backends::Kernel& kernel : kernels) {
          if (kernel.op != backends::Op::decode) continue;
          const backends::BoundKernel bound = tests::bind_on_cpu(kernel, *kernel.policies.begin(), compressed.view());
          std::vector<std::byte> decoded(matrix.elements.size() + 1);
          decoded.back() = std::byte{99};
          for (int64_t row = 0; row < matrix.shape.rows; row += format::kRowsPerBlock)
            bound.enqueue(nullptr,
                          backends::DecodeArgs{.rows = {row, std::min(matrix.shape.rows, row + format::kRowsPerBlock)},
                                               .out = decoded.data() + 2 * row * matrix.shape.cols});
          CHECK(decoded.back() == std::byte{99});
          decoded.pop_back();
          CHECK(decoded == matrix.elements);
        }
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

TEST_CASE("packed_exponents takes bf16 in up to 2^20 columns, and refuses streams that lead outside or lie") {
  CHECK(entry().codec->refuses(tests::gaussian_matrix({2, 3}, 4).view(), {}) ==
        "packed_exponents stores elements of bf16 only.");
  const datasets::MatrixView wide{{0, (int64_t{1} << 20) + 1}, datasets::ElementType::bf16, {}};
  CHECK(entry().codec->refuses(wide, {}) ==
        "packed_exponents stores at most 2^20 columns, since records count them in 20 bits.");
  const CompressedMatrix good = encode(with_records({40, 100}));
  const auto damaged = [&](int section, size_t at, int value) {
    CompressedMatrix bad = good;
    bad.sections[static_cast<size_t>(section)].bytes[at] = std::byte(value);
    return bad;
  };
  CHECK_THROWS_AS(decode(damaged(format::kHeader, 0, 240)), MalformedStream);  // a window that holds infinities
  CHECK_THROWS_AS(decode(damaged(format::kBlocks, 15, 255)), MalformedStream);
  CHECK_THROWS_AS(decode(damaged(format::kRecords, 2, 15)), MalformedStream);  // a column far to the right
  CompressedMatrix below = good;                                               // the last block has 8 rows
  std::vector<std::byte>& records = below.sections[format::kRecords].bytes;
  records[records.size() - 2] = std::byte{0xf0};
  CHECK_THROWS_AS(decode(below), MalformedStream);
  // Records that change places, an element that has two, one whose exponent has a code, and one that is stored as no
  // neighbour of its exponent.
  CompressedMatrix turned = good, twice = good;
  const auto record_in = [](CompressedMatrix& of, size_t i) {
    return of.sections[format::kRecords].bytes.begin() + static_cast<std::ptrdiff_t>(4 * i);
  };
  std::swap_ranges(record_in(turned, 0), record_in(turned, 1), record_in(turned, 1));
  CHECK_THROWS_AS(decode(turned), MalformedStream);
  std::copy_n(record_in(twice, 0), 4, record_in(twice, 1));
  CHECK_THROWS_AS(decode(twice), MalformedStream);
  const int lowest = std::to_integer<int>(good.sections[format::kHeader].bytes[0]);
  CHECK_THROWS_AS(decode(damaged(format::kRecords, 3, lowest + 1)), MalformedStream);
  const int exponent = std::to_integer<int>(good.sections[format::kRecords].bytes[3]);
  CHECK_THROWS_AS(decode(damaged(format::kRecords, 3, exponent < lowest ? lowest + 100 : lowest - 1)), MalformedStream);
  for (size_t section = 0; section < format::kSections; ++section) {
    CompressedMatrix shorter = good, none = good;
    shorter.sections[section].bytes.pop_back();
    none.sections.erase(none.sections.begin() + static_cast<std::ptrdiff_t>(section));
    CHECK_THROWS_AS(decode(shorter), MalformedStream);
    CHECK_THROWS_AS(decode(none), MalformedStream);
  }
}

}  // namespace ecmv::codecs
