// Golden streams decode forever, and the encoder of the current version still writes them. `write_golden CODEC` writes
// new ones and refuses to overwrite a version.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <fstream>

#include "tests/golden_streams.h"

using namespace ecmv;
namespace fs = std::filesystem;

namespace {

// Codecs that need a library or a device at run time have no golden streams, which could only be decoded there.
const codecs::CodecEntry& each_codec() {
  std::vector<const codecs::CodecEntry*> kept;
  for (const codecs::CodecEntry& entry : codecs::all_codecs())
    if (entry.codec->unavailable == nullptr) kept.push_back(&entry);
  if (kept.empty()) SKIP("this build has no codec that keeps streams");
  return *kept[GENERATE_COPY(range(size_t{0}, kept.size()))];
}

}  // namespace

TEST_CASE("golden streams of every version decode to their matrices") {
  const codecs::CodecEntry& entry = each_codec();
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  INFO(entry.id);
  int streams = 0;
  for (uint32_t version = 1; version <= entry.codec->format_version; ++version)
    for (const datasets::Matrix& matrix : tests::golden_matrices(entry)) {
      const fs::path path = tests::golden_folder(entry, version) / (tests::golden_name(matrix) + ".safetensors");
      if (!fs::exists(path)) {
        // Only a matrix that the codec refuses has no stream.
        CHECK((version < entry.codec->format_version || !entry.codec->refuses(matrix.view(), settings).empty()));
        continue;
      }
      INFO(path.string());
      const datasets::FileBytes file(path.string());
      const datasets::Safetensors tensors = datasets::parse_safetensors(file.bytes());
      std::vector<std::byte> decoded(matrix.elements.size(), std::byte{0x80});
      entry.codec->decode(tests::from_golden(tensors, matrix.view(), settings), decoded);
      const codecs::ErrorBound bound =
          entry.codec->lossless ? codecs::ErrorBound{} : entry.codec->error_bound(matrix.view(), settings);
      if (bound.exact())
        CHECK(decoded == matrix.elements);
      else
        CHECK(codecs::check_bound(matrix.view(), decoded, bound).violation == "");
      if (version == entry.codec->format_version && entry.codec->portable_bytes) {
        const std::vector<std::byte> now = tests::to_golden(codecs::encode_matrix(entry, matrix.view(), settings));
        CHECK(std::ranges::equal(now, file.bytes()));
      }
      ++streams;
    }
  CHECK(streams > 0);
}

TEST_CASE("stored sizes and streams are those of sizes.csv") {
  const codecs::CodecEntry& entry = each_codec();
  if (!entry.codec->portable_bytes) SKIP(std::string(entry.id) + ": the version of a library decides the stored bytes");
  const fs::path path = tests::golden_folder(entry, entry.codec->format_version) / "sizes.csv";
  INFO(path.string());
  std::ifstream file(path);
  REQUIRE(file.is_open());
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  CHECK(lines == tests::size_lines(entry));
}
