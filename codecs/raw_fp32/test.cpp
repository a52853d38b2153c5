// The special cases of raw_fp32: which matrices are exact in float32, and which floats are no elements.
#include <catch2/catch_test_macros.hpp>

#include <cstring>
#include <limits>

#include "codecs/compressed_matrix.h"
#include "codecs/registry.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs::raw_fp32 {
namespace {

const CodecEntry& entry() { return *find_codec("raw_fp32"); }

// One row of `cols` elements of -128, then `rest`.
datasets::Matrix extreme_row(int64_t cols, int8_t rest) {
  datasets::Matrix matrix = tests::gaussian_matrix({1, cols}, 1);
  for (std::byte& element : matrix.elements) element = std::byte{0x80};
  matrix.elements.back() = static_cast<std::byte>(rest);
  return matrix;
}

CompressedMatrix with_first_element(float value) {
  CompressedMatrix compressed = encode_matrix(entry(), tests::gaussian_matrix({2, 3}, 4).view(), {});
  std::memcpy(compressed.sections[0].bytes.data(), &value, sizeof(value));
  return compressed;
}

}  // namespace

TEST_CASE("raw_fp32 takes a row up to the last sum that float32 holds exactly, and refuses the next") {
  CHECK(entry().codec->refuses(extreme_row(1024, 127).view(), {}) == "");
  CHECK(entry().codec->refuses(extreme_row(1024, -128).view(), {}).find("row 0 add up to 131072") != std::string::npos);
}

TEST_CASE("raw_fp32 stores 32 bits an element") {
  const CompressedMatrix compressed = encode_matrix(entry(), tests::gaussian_matrix({5, 7}, 4).view(), {});
  CHECK(compressed.stored_bytes() == 4 * 35);
}

TEST_CASE("raw_fp32 refuses streams with floats that are no int8") {
  std::vector<std::byte> out(6);
  CHECK_NOTHROW(entry().codec->decode(with_first_element(-128.0f).view(), out));
  for (const float value :
       {0.5f, 128.0f, -129.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    CHECK_THROWS_AS(entry().codec->decode(with_first_element(value).view(), out), MalformedStream);
}

}  // namespace ecmv::codecs::raw_fp32
