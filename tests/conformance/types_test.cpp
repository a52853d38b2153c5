// The element type of a stream comes from its container. Decoders that know one type do not check it.
// codecs/read_stream.h, the door for foreign streams, does so by asking the codec about a matrix without elements.
#include <catch2/catch_test_macros.hpp>

#include "codecs/read_stream.h"
#include "tests/test_matrices.h"
#include "tests/test_settings.h"
#include "tests/tested_codecs.h"

using namespace ecmv;

namespace {

std::vector<datasets::Matrix> one_of_each_type() {
  std::vector<datasets::Matrix> out = {tests::gaussian_matrix({32, 512}, 4), tests::ternary_matrix({32, 512})};
  for (datasets::Matrix& matrix : tests::typed_matrices()) out.push_back(std::move(matrix));
  return out;
}

}  // namespace

TEST_CASE("a codec that takes a matrix takes one of the same type without elements") {
  for (const codecs::CodecEntry& entry : tests::tested_codecs())
    for (const backends::Settings& settings : tests::settings_to_test(*entry.codec))
      for (const datasets::Matrix& matrix : one_of_each_type()) {
        if (!entry.codec->refuses(matrix.view(), settings).empty()) continue;
        INFO(entry.id << " [" << settings.to_string() << "], " << tests::describe(matrix));
        CHECK(entry.codec->refuses({{}, matrix.type, {}}, settings) == "");
      }
}

TEST_CASE("a stream that claims elements of a type that its codec does not take is refused") {
  const std::vector<datasets::Matrix> matrices = one_of_each_type();
  for (const codecs::CodecEntry& entry : tests::tested_codecs())
    for (const backends::Settings& settings : tests::settings_to_test(*entry.codec))
      for (const datasets::Matrix& matrix : matrices) {
        if (!entry.codec->refuses(matrix.view(), settings).empty()) continue;
        backends::CompressedMatrix stored = codecs::encode_matrix(entry, matrix.view(), settings);
        for (const datasets::Matrix& other : matrices) {
          stored.type = other.type;
          if (entry.codec->refuses({{}, stored.type, {}}, settings).empty()) continue;
          INFO(entry.id << " [" << settings.to_string() << "] as " << datasets::element_type_name(stored.type));
          CHECK_THROWS_AS(codecs::read_stream(*entry.codec, stored.view()), codecs::MalformedStream);
        }
        break;
      }
}
