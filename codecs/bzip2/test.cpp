// The claims of tests/library_codec_claims.h with the numbers of bzip2.
#include "tests/library_codec_claims.h"

using namespace ecmv;

namespace {

const codecs::CodecEntry& entry() { return *codecs::find_codec("bzip2"); }

}  // namespace

TEST_CASE("bzip2 stores Gaussian elements of entropy 4.05 as its code allows") {
  tests::claim_gaussian_size(entry(), 4.30, 4.45);
}

TEST_CASE("bzip2 decodes every block alone within the scratch it asks for") {
  tests::claim_blocks_decode_alone(
      entry(), {{{"block_kib", "16"}}, {{"block_kib", "1"}}, {{"block_kib", "128"}}, {{"level", "1"}}});
}

TEST_CASE("bzip2 notices streams that are cut, longer or of another size") { tests::claim_damage_is_noticed(entry()); }

TEST_CASE("bzip2 refuses blocks of another level than its setting, because kernels have memory for that level alone") {
  backends::CompressedMatrix stored = tests::encode_with(entry(), tests::library_test_matrix(4, 64), {{"level", "9"}});
  CHECK_NOTHROW(tests::decode_whole(entry(), stored));
  stored.settings.set("level", int64_t{1});
  CHECK_THROWS_AS(tests::decode_whole(entry(), stored), codecs::MalformedStream);
}
