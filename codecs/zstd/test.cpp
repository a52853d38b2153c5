// The claims of tests/library_codec_claims.h with the numbers of zstd.
#include "tests/library_codec_claims.h"

using namespace ecmv;

TEST_CASE("zstd stores Gaussian elements of 4.05 bits as its code allows, decodes blocks alone and notices damage") {
  tests::claim_library_codec(
      "zstd", 4.05, 4.11,
      {{{"block_kib", "16"}}, {{"block_kib", "1"}}, {{"block_kib", "128"}}, {{"level", "19"}}, {{"level", "1"}}});
}
