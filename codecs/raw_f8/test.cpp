// raw_f8 has only its refusals to test; the conformance tests check the promises of every codec.
#include <catch2/catch_test_macros.hpp>

#include "codecs/registry.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs::raw_f8 {

TEST_CASE("raw_f8 takes f8_e4m3 alone, every pattern of it, at a byte an element") {
  const CodecEntry& entry = *find_codec("raw_f8");
  for (const datasets::Matrix& matrix : tests::typed_matrices())
    CHECK((entry.codec->refuses(matrix.view(), {}) == "") == (matrix.type == datasets::ElementType::f8_e4m3));
  CHECK(entry.codec->refuses(tests::gaussian_matrix({2, 3}, 4).view(), {}) == "raw_f8 stores f8_e4m3 elements only.");
  const datasets::Matrix all =
      tests::make_typed_matrix("all_patterns", datasets::ElementType::f8_e4m3, {16, 16}, [](int64_t i) { return i; });
  CHECK(encode_matrix(entry, all.view(), {}).stored_bytes() == 256);
}

}  // namespace ecmv::codecs::raw_f8
