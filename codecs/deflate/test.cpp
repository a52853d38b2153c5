// The claims of tests/library_codec_claims.h with the numbers of deflate.
#include "tests/library_codec_claims.h"

using namespace ecmv;

TEST_CASE("deflate stores Gaussian elements of 4.05 bits as its code allows, decodes blocks alone and notices damage") {
  tests::claim_library_codec("deflate", 4.05, 4.12,
                             {{{"block_kib", "16"}},
                              {{"block_kib", "1"}},
                              {{"block_kib", "128"}},
                              {{"strategy", "default"}},
                              {{"level", "1"}}});
}
