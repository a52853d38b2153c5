// Claims about ans_warp_stripes alone: its stored bytes, word for word, and the files of the original.
#include "tests/quad_ans_claims.h"

namespace ecmv::codecs::ans_warp_stripes {
namespace {

const CodecEntry& entry() { return *find_codec("ans_warp_stripes"); }

}  // namespace

TEST_CASE("ans_warp_stripes stores a constant matrix as states 2^32 and no words") {
  tests::claim_constant_matrix_takes_no_words(entry(), {64, 24}, 2);
}

TEST_CASE("ans_warp_stripes stores the bytes that were compared with the original encoder's") {
  tests::claim_bytes_of_the_original(
      entry(), {64, 24},
      {0x3247a2959cf3557au, 0x1f1a58046be6494fu, 0x457eae0a059a8756u, 0xdf860e51c3f718e8u, 0x11a46afc1b6790e1u});
}

TEST_CASE("ans_warp_stripes holds 128 distinct values and refuses 129") {
  tests::claim_at_most_128_values(entry(), {32, 8});
}

TEST_CASE("ans_warp_stripes refuses shapes that its queues do not divide") {
  const auto reason = [](datasets::Shape shape) {
    return entry().codec->refuses(tests::gaussian_matrix(shape, 1).view(), {});
  };
  CHECK(reason({33, 64}).find("32 rows") != std::string::npos);
  CHECK(reason({32, 66}).find("four columns") != std::string::npos);
}

TEST_CASE("ans_warp_stripes notices a wrong bit unless it only swaps a few symbols of equal probability") {
  tests::claim_wrong_bits_are_noticed(entry(), tests::gaussian_matrix({64, 64}, 4), modelling::kQuadCompressed, 4);
}

TEST_CASE(
    "ans_warp_stripes reads the original's file and writes it again byte for byte, also from the elements alone") {
  tests::claim_files_of_the_original(entry(), "d256_h4_ans-warp-stripes.safetensors",
                                     "d256_h4_ans-warp-rows.safetensors");
}

}  // namespace ecmv::codecs::ans_warp_stripes
