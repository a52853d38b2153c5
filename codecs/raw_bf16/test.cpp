// raw_bf16 has only its refusals to test; the conformance tests check the promises of every codec.
#include <catch2/catch_test_macros.hpp>

#include "codecs/registry.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs::raw_bf16 {

TEST_CASE("raw_bf16 takes bf16 alone, every pattern of it, at two bytes an element") {
  const CodecEntry& entry = *find_codec("raw_bf16");
  for (const datasets::Matrix& matrix : tests::typed_matrices())
    CHECK((entry.codec->refuses(matrix.view(), {}) == "") == (matrix.type == datasets::ElementType::bf16));
  CHECK(entry.codec->refuses(tests::gaussian_matrix({2, 3}, 4).view(), {}) == "raw_bf16 stores bf16 elements only.");
  const datasets::Matrix all =
      tests::make_typed_matrix("all_patterns", datasets::ElementType::bf16, {256, 256}, [](int64_t i) { return i; });
  CHECK(encode_matrix(entry, all.view(), {}).stored_bytes() == 2 * 65536);
}

}  // namespace ecmv::codecs::raw_bf16
