// The chain files of raw_int8: both uncompressed layouts of the MatVANS experiments.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <filesystem>

#include "codecs/registry.h"
#include "datasets/files/file_bytes.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs::raw_int8 {
namespace {

const CodecEntry& entry() { return *find_codec("raw_int8"); }

ChainFile small_chain(bool with_scales) {
  ChainFile chain;
  chain.initial_vector = {1, -2, 3, -128, 127};
  for (uint64_t seed = 1; seed <= 3; ++seed)
    chain.layers.push_back(encode_matrix(entry(), tests::gaussian_matrix({5, 5}, 30, seed).view(), {}));
  if (with_scales) chain.scales = {0.5f, 0.25f, 1e-3f};
  for (int layer = with_scales ? 0 : 2; layer < 3; ++layer)
    chain.hashes[layer] = 0xDEADBEEFu + static_cast<uint32_t>(layer);
  return chain;
}

}  // namespace

TEST_CASE("raw_int8 reads the chain files that it writes") {
  for (const bool with_scales : {true, false}) {
    const ChainFile chain = small_chain(with_scales);
    const std::vector<std::byte> bytes = entry().codec->write_file(chain);
    REQUIRE(entry().codec->recognises_file(bytes));
    const ChainFile read = entry().codec->read_file(bytes);
    CHECK(read.initial_vector == chain.initial_vector);
    CHECK(read.scales == chain.scales);
    CHECK(read.hashes == chain.hashes);
    REQUIRE(read.layers.size() == 3);
    for (int layer = 0; layer < 3; ++layer) {
      CHECK(read.layers[layer].sections[0].bytes == chain.layers[layer].sections[0].bytes);
      CHECK(read.layers[layer].source_hash == chain.layers[layer].source_hash);
    }
  }
}

TEST_CASE("raw_int8 refuses chain files that are cut or longer than they say") {
  for (const bool with_scales : {true, false}) {
    std::vector<std::byte> bytes = entry().codec->write_file(small_chain(with_scales));
    for (size_t size = 0; size < bytes.size(); size += 3) {
      const auto cut = std::span(bytes).first(size);
      CHECK_FALSE(entry().codec->recognises_file(cut));
      CHECK_THROWS_AS(entry().codec->read_file(cut), MalformedStream);
    }
    bytes.push_back(std::byte{0});
    CHECK_FALSE(entry().codec->recognises_file(bytes));
    CHECK_THROWS_AS(entry().codec->read_file(bytes), MalformedStream);
  }
}

TEST_CASE("raw_int8 says which chains its files cannot hold") {
  ChainFile chain = small_chain(true);
  chain.hashes.erase(1);
  CHECK_THROWS_AS(entry().codec->write_file(chain), std::invalid_argument);
  chain = small_chain(true);
  chain.scales.pop_back();
  CHECK_THROWS_AS(entry().codec->write_file(chain), std::invalid_argument);
  chain = small_chain(true);
  chain.layers[2] = encode_matrix(entry(), tests::gaussian_matrix({4, 5}, 1).view(), {});
  CHECK_THROWS_AS(entry().codec->write_file(chain), std::invalid_argument);
}

TEST_CASE("raw_int8 writes the original's files byte for byte") {
  for (const char* name : {"d256_h4_uncompressed.safetensors", "w512_e5_uncompressed.bin"}) {
    const auto path = std::filesystem::path(ECMV_SOURCE_DIR "/../shared/data/matvans") / name;
    if (!std::filesystem::exists(path)) SKIP("the MatVANS files are not there: " + path.string());
    const datasets::FileBytes file(path.string());
    REQUIRE(entry().codec->recognises_file(file.bytes()));
    CHECK(std::ranges::equal(entry().codec->write_file(entry().codec->read_file(file.bytes())), file.bytes()));
  }
}

}  // namespace ecmv::codecs::raw_int8
