// Claims about ans_warp_rows alone: its stored bytes, word for word, and the files of the original.
#include "tests/quad_ans_claims.h"

namespace ecmv::codecs::ans_warp_rows {
namespace {

const CodecEntry& entry() { return *find_codec("ans_warp_rows"); }

}  // namespace

TEST_CASE("ans_warp_rows stores a constant matrix as states 2^32 and no words") {
  tests::claim_constant_matrix_takes_no_words(entry(), {3, 256}, 3);
}

TEST_CASE("ans_warp_rows stores the bytes that were compared with the original encoder's") {
  tests::claim_bytes_of_the_original(
      entry(), {3, 256},
      {0xc998666a3a1b13eeu, 0x9006a4ae4f667702u, 0x997ad974c73a2561u, 0x4c9c96b3b295ea82u, 0xb9a7aded248b8eeeu});
}

TEST_CASE("ans_warp_rows holds 128 distinct values and refuses 129") {
  tests::claim_at_most_128_values(entry(), {2, 128});
}

TEST_CASE("ans_warp_rows refuses shapes that its queues do not divide") {
  CHECK(entry().codec->refuses(tests::gaussian_matrix({4, 64}, 1).view(), {}).find("128 columns") != std::string::npos);
}

TEST_CASE("ans_warp_rows notices a wrong bit unless it only swaps a few symbols of equal probability") {
  tests::claim_wrong_bits_are_noticed(entry(), tests::gaussian_matrix({2, 1024}, 4), modelling::kQuadCompressed, 4);
}

TEST_CASE("ans_warp_rows reads the original's file and writes it again byte for byte, also from the elements alone") {
  tests::claim_files_of_the_original(entry(), "d256_h4_ans-warp-rows.safetensors",
                                     "d256_h4_ans-warp-stripes.safetensors");
}

}  // namespace ecmv::codecs::ans_warp_rows
