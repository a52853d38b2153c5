// What only matvans_warp_per_row knows of itself: its stored bytes, the limits of its model, and the file of the
// original.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>

#include "codecs/compressed_matrix.h"
#include "codecs/matvans_warp_per_row/format.h"
#include "codecs/read_stream.h"
#include "codecs/registry.h"
#include "datasets/files/file_bytes.h"
#include "datasets/files/matvans.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs::matvans_warp_per_row {
namespace {

const std::filesystem::path kData = ECMV_SOURCE_DIR "/../shared/data/matvans";

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
    // Of every 8 words of a lane 2 are used, its head.
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
  std::vector<uint64_t> hashes;
  for (const Section& section : encoded(matrix).sections)
    hashes.push_back(datasets::content_hash(
        {{1, static_cast<int64_t>(section.bytes.size())}, datasets::ElementType::u8, section.bytes}));
  CHECK(hashes == std::vector<uint64_t>{0xef9ecaa6df7b7788u, 0x66668554737877d6u, 0x0b0591ee5fd406c9u,
                                        0xc6bba9ce0772dbfcu, 0xd1fe41fa7934a435u});
}

TEST_CASE("matvans_warp_per_row notices a wrong bit unless it only swaps a few symbols of equal probability") {
  const datasets::Matrix matrix = tests::gaussian_matrix({2, 1024}, 4);
  CompressedMatrix compressed = encoded(matrix);
  auto& payload = compressed.sections[kPayload].bytes;
  int64_t most_wrong =
      0;  // elements; after such swaps the states are right again, and a bit of padding changes nothing
  for (size_t i = 0; i < payload.size(); i += 7) {
    payload[i] ^= std::byte{0x10};
    try {
      const std::vector<std::byte> got = decoded(compressed).elements;
      most_wrong = std::max(most_wrong, std::inner_product(got.begin(), got.end(), matrix.elements.begin(), int64_t{0},
                                                           std::plus<>(), std::not_equal_to<>()));
    } catch (const MalformedStream&) {
    }
    payload[i] ^= std::byte{0x10};
  }
  CHECK(most_wrong <= 4);
}

TEST_CASE("matvans_warp_per_row reads the original's file and encodes the same bytes but for padding") {
  const auto path = kData / "w512_e5_warp-per-row.bin", twin_path = kData / "w512_e5_uncompressed.bin";
  if (!std::filesystem::exists(path)) SKIP("the MatVANS files are not there: " + path.string());
  const datasets::FileBytes file(path.string()), twin_file(twin_path.string());
  REQUIRE(entry().codec->recognises_file(file.bytes()));
  CHECK_FALSE(entry().codec->recognises_file(twin_file.bytes()));
  const ChainFile chain = read_chain_file(*entry().codec, file.bytes()).chain;
  CHECK(std::ranges::equal(entry().codec->write_file(chain), file.bytes()));
  const datasets::MatvansFile twin = datasets::parse_matvans_uncompressed(twin_file.bytes());
  REQUIRE(chain.layers.size() == twin.layers.size());
  for (size_t layer = 0; layer < chain.layers.size(); ++layer) {
    CHECK(chain.layers[layer].source_hash == twin.layers[layer].content_hash);
    const CompressedMatrix again = encoded(twin.layers[layer]);
    for (const int section : {kCursors, kCdf, kPpf, kMinValue})
      CHECK(again.sections[section].bytes == chain.layers[layer].sections[section].bytes);
    // The original leaves the words past a lane's last one uninitialised. Whatever differs is such a word: inverted, it
    // changes nothing.
    CompressedMatrix inverted = chain.layers[layer];
    auto& words = inverted.sections[kPayload].bytes;
    REQUIRE(words.size() == again.sections[kPayload].bytes.size());
    for (size_t i = 0; i < words.size(); ++i)
      if (words[i] != again.sections[kPayload].bytes[i]) words[i] = ~words[i];
    CHECK(decoded(inverted).elements == twin.layers[layer].elements);
  }
}

}  // namespace ecmv::codecs::matvans_warp_per_row
