// What raw_fp32 stores, and which floats are no elements.
#include <catch2/catch_test_macros.hpp>

#include <cstring>

#include "codecs/compressed_matrix.h"
#include "codecs/registry.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs::raw_fp32 {
namespace {

const CodecEntry& entry() { return *find_codec("raw_fp32"); }

}  // namespace

TEST_CASE("raw_fp32 stores 32 bits an element of bf16, and no other type") {
  const CompressedMatrix compressed = encode_matrix(entry(), tests::bf16_matrix({5, 7}).view(), {});
  CHECK(compressed.stored_bytes() == 4 * 35);
  CHECK(entry().codec->refuses(tests::gaussian_matrix({5, 7}, 4).view(), {}).find("bf16") != std::string::npos);
}

TEST_CASE("raw_fp32 refuses streams with floats that are no bf16") {
  CompressedMatrix compressed = encode_matrix(entry(), tests::bf16_matrix({2, 3}).view(), {});
  std::vector<std::byte> out(12);
  for (const float value : {0.5f, -1.0078125f, 1.00001f, 1e-45f}) {
    std::memcpy(compressed.sections[0].bytes.data(), &value, sizeof(value));
    const bool is_bf16 = value == 0.5f || value == -1.0078125f;
    if (is_bf16)
      CHECK_NOTHROW(entry().codec->decode(compressed.view(), out));
    else
      CHECK_THROWS_AS(entry().codec->decode(compressed.view(), out), MalformedStream);
  }
}

}  // namespace ecmv::codecs::raw_fp32
