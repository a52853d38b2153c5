// The claims of tests/library_codec_claims.h with the numbers of deflate.
#include "tests/library_codec_claims.h"

using namespace ecmv;

namespace {

const codecs::CodecEntry& entry() { return *codecs::find_codec("deflate"); }

}  // namespace

TEST_CASE("deflate stores Gaussian elements of entropy 4.05 as its code allows") {
  tests::claim_gaussian_size(entry(), 4.05, 4.12);
}

TEST_CASE("deflate decodes every block alone within the scratch it asks for") {
  tests::claim_blocks_decode_alone(entry(), {{{"block_kib", "16"}},
                                             {{"block_kib", "1"}},
                                             {{"block_kib", "128"}},
                                             {{"strategy", "default"}},
                                             {{"level", "1"}}});
}

TEST_CASE("deflate notices streams that are cut, longer or of another size") {
  tests::claim_damage_is_noticed(entry());
}
