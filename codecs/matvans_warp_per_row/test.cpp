// Claims about matvans_warp_per_row alone: its stored bytes, the limits of its model, and the original's file.
#include "codecs/matvans_warp_per_row/format.h"
#include "tests/int8_claims.h"

namespace ecmv::codecs::matvans_warp_per_row {
namespace {

const CodecEntry& entry() { return *find_codec("matvans_warp_per_row"); }

CompressedMatrix encoded(const datasets::Matrix& matrix) { return encode_matrix(entry(), matrix.view(), {}); }

datasets::Matrix decoded(const CompressedMatrix& compressed) {
  datasets::Matrix matrix;
  matrix.shape = compressed.shape;
  matrix.elements.resize(static_cast<size_t>(compressed.shape.elements()));
  entry().codec->decode(compressed.view(), matrix.elements);
  return matrix;
}

}  // namespace

TEST_CASE("matvans_warp_per_row gives a constant matrix a second value, because a byte cannot hold probability 256") {
  for (const int value : {-128, 0, 127}) {
    const datasets::Matrix matrix = tests::make_matrix("constant", {2, 512}, [=](int64_t) { return value; });
    const CompressedMatrix compressed = encoded(matrix);
    CHECK(compressed.sections[kCdf].bytes == std::vector<std::byte>{std::byte{0}, std::byte{255}, std::byte{0}});
    CHECK(decoded(compressed).elements == matrix.elements);
    // A lane uses 2 of its 8 words, its head.
    CHECK(compressed.stored_bytes(Role::payload) == 2 * 32 * 8 * 2);
    CHECK(compressed.padding_bytes() == 2 * 32 * 6 * 2);
  }
}

TEST_CASE("matvans_warp_per_row holds 255 neighbouring values and refuses 256") {
  const auto matrix_of = [](int values) {
    return tests::make_matrix("values", {3, 512}, [=](int64_t i) { return static_cast<int>(i % values) - 128; });
  };
  const datasets::Matrix most = matrix_of(255);
  REQUIRE(entry().codec->refuses(most.view(), {}).empty());
  CHECK(decoded(encoded(most)).elements == most.elements);
  CHECK(entry().codec->refuses(matrix_of(256).view(), {}).find("spans 256") != std::string::npos);
  CHECK(entry().codec->refuses(tests::gaussian_matrix({1, 256}, 1).view(), {}).find("512 columns") !=
        std::string::npos);
}

TEST_CASE("matvans_warp_per_row stores the bytes that were compared with the original encoder's") {
  const datasets::Matrix matrix =
      tests::make_matrix("small", {3, 1024}, [](int64_t i) { return static_cast<int>(i * i % 23 + i % 7) - 14; });
  CHECK(tests::section_hashes(encoded(matrix)) == std::vector<uint64_t>{0xef9ecaa6df7b7788u, 0x66668554737877d6u,
                                                                        0x0b0591ee5fd406c9u, 0xc6bba9ce0772dbfcu,
                                                                        0xd1fe41fa7934a435u});
}

TEST_CASE("matvans_warp_per_row notices a wrong bit unless it only swaps a few symbols of equal probability") {
  tests::claim_wrong_bits_are_noticed(entry(), tests::gaussian_matrix({2, 1024}, 4), kPayload, 4);
}

TEST_CASE("matvans_warp_per_row reads the original's file and encodes the same bytes but for padding") {
  tests::claim_original_file(entry(), "w512_e5_warp-per-row.bin", "w512_e5_uncompressed.bin",
                             [](const CompressedMatrix& layer, const datasets::Matrix& twin) {
                               const CompressedMatrix again = encoded(twin);
                               for (const int section : {kCursors, kCdf, kPpf, kMinValue})
                                 CHECK(again.sections[section].bytes == layer.sections[section].bytes);
                               // The original leaves the words past a lane's last one uninitialised. A byte that
                               // differs is such a word: inverted, it changes nothing.
                               CompressedMatrix inverted = layer;
                               auto& words = inverted.sections[kPayload].bytes;
                               REQUIRE(words.size() == again.sections[kPayload].bytes.size());
                               for (size_t i = 0; i < words.size(); ++i)
                                 if (words[i] != again.sections[kPayload].bytes[i]) words[i] = ~words[i];
                               CHECK(decoded(inverted).elements == twin.elements);
                             });
}

}  // namespace ecmv::codecs::matvans_warp_per_row
