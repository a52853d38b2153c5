// The bytes of FORMAT.md's worked tile are a stream, and decode to its elements.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format/header.h"
#include "codecs/registry.h"

namespace {

using namespace ecmv;
using Bytes = std::vector<std::byte>;

// "00 ff (01 02)*3": bytes in hexadecimal; brackets repeat as often as the number says. Ends at anything else.
Bytes bytes_of(std::istream& line) {
  Bytes bytes;
  size_t group = 0;
  for (std::string word; line >> word;) {
    if (word.starts_with("(")) group = bytes.size(), word.erase(0, 1);
    if (word.size() < 2 || word.find_first_not_of("0123456789abcdef") < 2) break;
    bytes.push_back(static_cast<std::byte>(std::stoi(word.substr(0, 2), nullptr, 16)));
    if (word.size() == 2) continue;
    if (!word.substr(2).starts_with(")*")) {
      bytes.pop_back();
      break;
    }
    const Bytes once(bytes.begin() + static_cast<std::ptrdiff_t>(group), bytes.end());
    for (int i = 1; i < std::stoi(word.substr(4)); ++i) bytes.insert(bytes.end(), once.begin(), once.end());
  }
  return bytes;
}

// The bytes of each name in the block of the page.
std::map<std::string, Bytes> worked_tile() {
  std::ifstream page(ECMV_SOURCE_DIR "/codecs/quad_huffman/FORMAT.md");
  std::map<std::string, Bytes> named;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) inside = line == "```stream";
    if (!inside || line.starts_with("```")) continue;
    std::istringstream words(line);
    std::string name;
    words >> name;
    const Bytes bytes = bytes_of(words);
    named[name].insert(named[name].end(), bytes.begin(), bytes.end());
  }
  return named;
}

}  // namespace

TEST_CASE("the worked tile of quad_huffman's FORMAT.md decodes to its elements", "[quad_huffman]") {
  std::map<std::string, Bytes> named = worked_tile();
  const codecs::CodecEntry& entry = *codecs::find_codec("quad_huffman");
  CHECK(entry.codec->format_version == 2);
  datasets::Matrix matrix;
  matrix.shape = {2, 6};
  matrix.elements = named["elements"];
  REQUIRE(matrix.elements.size() == 12);
  codecs::CompressedMatrix stream = codecs::make_compressed(matrix.view(), codecs::default_settings(*entry.codec));
  for (const char* name : {"header", "table", "tiles", "schedule", "codes", "raw", "patches"})
    stream.sections.push_back({name, codecs::Role::table, 64, named[name]});
  Bytes out(12);
  entry.codec->decode(stream.view(), out);
  CHECK(out == matrix.elements);
  // The patch makes it so: reversed, it gives another element.
  stream.sections[codecs::quad_huffman::kPatches].bytes[1] = std::byte{0x80};
  entry.codec->decode(stream.view(), out);
  CHECK(out[8] == std::byte{1});
}
