// What only ans_warp_stripes knows of itself: its stored bytes, word for word, and the files of the original.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>

#include "codecs/ans_warp_stripes/format.h"
#include "codecs/compressed_matrix.h"
#include "codecs/read_stream.h"
#include "codecs/registry.h"
#include "datasets/files/file_bytes.h"
#include "datasets/files/matvans.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs::ans_warp_stripes {
namespace {

const std::filesystem::path kData = ECMV_SOURCE_DIR "/../shared/data/matvans";

const CodecEntry& entry() { return *find_codec("ans_warp_stripes"); }

CompressedMatrix encoded(const datasets::Matrix& matrix) { return encode_matrix(entry(), matrix.view(), {}); }

std::vector<uint64_t> section_hashes(const CompressedMatrix& compressed) {
  std::vector<uint64_t> hashes;
  for (const Section& section : compressed.sections)
    hashes.push_back(datasets::content_hash(
        {{1, static_cast<int64_t>(section.bytes.size())}, datasets::ElementType::u8, section.bytes}));
  return hashes;
}

datasets::Matrix small_matrix() {
  return tests::make_matrix("small", {64, 24}, [](int64_t i) { return static_cast<int>(i * i % 23 + i % 7) - 14; });
}

}  // namespace

TEST_CASE("ans_warp_stripes stores a constant matrix as states 2^32 and no words") {
  const CompressedMatrix compressed = encoded(tests::make_matrix("constant", {64, 24}, [](int64_t) { return -128; }));
  const std::span<const std::byte> payload = compressed.sections[modelling::kQuadCompressed].bytes;
  REQUIRE(payload.size() == 2 * 512);
  CHECK(compressed.padding_bytes() == 2 * 256);  // all but the states
  for (int64_t word = 0; word < 2 * 128; ++word) CHECK(modelling::quad_u32(payload, word) == (word % 4 == 3 ? 1u : 0u));
  for (int64_t queue = 0; queue < 2; ++queue)
    CHECK(modelling::quad_u32(compressed.sections[modelling::kQuadWarpOffsets].bytes, queue) == queue * 32);
  for (const std::byte prob : compressed.sections[modelling::kQuadPpfProb].bytes) CHECK(prob == std::byte{128});
}

TEST_CASE("ans_warp_stripes stores the bytes that were compared with the original encoder's") {
  CHECK(section_hashes(encoded(small_matrix())) == std::vector<uint64_t>{0x3247a2959cf3557au, 0x1f1a58046be6494fu,
                                                                         0x457eae0a059a8756u, 0xdf860e51c3f718e8u,
                                                                         0x11a46afc1b6790e1u});
}

TEST_CASE("ans_warp_stripes holds 128 distinct values and refuses 129") {
  const auto matrix_of = [](int values) {
    return tests::make_matrix("values", {32, 8}, [=](int64_t i) { return static_cast<int>(i % values) - 64; });
  };
  const datasets::Matrix most = matrix_of(128);
  CHECK(entry().codec->refuses(most.view(), {}).empty());
  std::vector<std::byte> decoded(most.elements.size());
  entry().codec->decode(encoded(most).view(), decoded);
  CHECK(decoded == most.elements);
  CHECK(entry().codec->refuses(matrix_of(129).view(), {}).find("128 distinct values") != std::string::npos);
}

TEST_CASE("ans_warp_stripes refuses shapes that its queues do not divide") {
  CHECK(entry().codec->refuses(tests::gaussian_matrix({33, 64}, 1).view(), {}).find("32 rows") != std::string::npos);
  CHECK(entry().codec->refuses(tests::gaussian_matrix({32, 66}, 1).view(), {}).find("four columns") !=
        std::string::npos);
}

TEST_CASE("ans_warp_stripes notices a wrong bit unless it only swaps a few symbols of equal probability") {
  const datasets::Matrix matrix = tests::gaussian_matrix({64, 64}, 4);
  std::vector<std::byte> decoded(matrix.elements.size());
  int64_t most_wrong =
      0;  // elements; after such swaps the states are right again, and a bit of padding changes nothing
  CompressedMatrix compressed = encoded(matrix);
  auto& payload = compressed.sections[modelling::kQuadCompressed].bytes;
  for (size_t i = 0; i < payload.size(); i += 7) {
    payload[i] ^= std::byte{0x10};
    try {
      entry().codec->decode(compressed.view(), decoded);
      most_wrong = std::max(most_wrong, std::inner_product(decoded.begin(), decoded.end(), matrix.elements.begin(),
                                                           int64_t{0}, std::plus<>(), std::not_equal_to<>()));
    } catch (const MalformedStream&) {
    }
    payload[i] ^= std::byte{0x10};
  }
  CHECK(most_wrong <= 4);
}

TEST_CASE(
    "ans_warp_stripes reads the original's file and writes it again byte for byte, also from the elements alone") {
  const auto path = kData / "d256_h4_ans-warp-stripes.safetensors",
             twin_path = kData / "d256_h4_uncompressed.safetensors";
  if (!std::filesystem::exists(path)) SKIP("the MatVANS files are not there: " + path.string());
  const datasets::FileBytes file(path.string()), twin_file(twin_path.string());
  REQUIRE(entry().codec->recognises_file(file.bytes()));
  CHECK_FALSE(entry().codec->recognises_file(twin_file.bytes()));
  CHECK_FALSE(find_codec("ans_warp_stripes")
                  ->codec->recognises_file(
                      datasets::FileBytes((kData / "d256_h4_ans-warp-rows.safetensors").string()).bytes()));
  ChainFile chain = read_chain_file(*entry().codec, file.bytes()).chain;
  CHECK(std::ranges::equal(entry().codec->write_file(chain), file.bytes()));
  const datasets::MatvansFile twin = datasets::parse_matvans_uncompressed(twin_file.bytes());
  REQUIRE(chain.layers.size() == twin.layers.size());
  for (size_t layer = 0; layer < chain.layers.size(); ++layer) {
    CHECK(chain.layers[layer].source_hash == twin.layers[layer].content_hash);
    chain.layers[layer] = encoded(twin.layers[layer]);
  }
  CHECK(std::ranges::equal(entry().codec->write_file(chain), file.bytes()));
}

}  // namespace ecmv::codecs::ans_warp_stripes
