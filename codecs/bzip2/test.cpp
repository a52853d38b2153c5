// The claims of tests/library_codec_claims.h with the numbers of bzip2.
#include "tests/library_codec_claims.h"

using namespace ecmv;

TEST_CASE("bzip2 stores Gaussian elements of 4.05 bits as its code allows, decodes blocks alone and notices damage") {
  tests::claim_library_codec("bzip2", 4.30, 4.45,
                             {{{"block_kib", "16"}}, {{"block_kib", "1"}}, {{"block_kib", "128"}}, {{"level", "1"}}});
}

TEST_CASE("bzip2 refuses blocks of another level than its setting, because kernels have memory for that level alone") {
  const codecs::CodecEntry& entry = *codecs::find_codec("bzip2");
  backends::CompressedMatrix stored = tests::encode_with(entry, tests::library_test_matrix(4, 64), {{"level", "9"}});
  CHECK_NOTHROW(tests::decode_whole(entry, stored));
  stored.settings.set("level", int64_t{1});
  CHECK_THROWS_AS(tests::decode_whole(entry, stored), codecs::MalformedStream);
}
