// The promises of every codec, checked for every codec of the registry, with its default settings on all test matrices
// and with every other setting on a few.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <functional>

#include "codecs/guarded_output.h"
#include "codecs/registry.h"
#include "tests/test_matrices.h"
#include "tests/test_settings.h"
#include "tests/tested_codecs.h"

using namespace ecmv;

namespace {

// The codecs as a Catch2 generator: one section a codec, named in every message.
const codecs::CodecEntry& each_codec() {
  const size_t count = tests::tested_codecs().size();
  const size_t index = GENERATE_COPY(range(size_t{0}, count));
  return tests::tested_codecs()[index];
}

std::vector<std::byte> decode(const codecs::CodecEntry& entry, const backends::CompressedMatrix& compressed) {
  codecs::GuardedOutput out(
      static_cast<size_t>(compressed.shape.elements() * datasets::element_bytes(compressed.type)));
  entry.codec->decode(compressed.view(), out.elements());
  CHECK_FALSE(out.written_outside());
  return out.take();
}

// Encodes and checks all promises; false if the codec refuses.
bool conforms(const codecs::CodecEntry& entry, const datasets::Matrix& matrix, const backends::Settings& settings) {
  INFO(entry.id << " [" << settings.to_string() << "] on " << tests::describe(matrix));
  const std::string refused = entry.codec->refuses(matrix.view(), settings);
  if (!refused.empty()) {
    INFO("A reason is a sentence with a full stop. This one: " << refused);
    CHECK(refused.size() > 20);
    CHECK(refused.back() == '.');
    return false;
  }
  const backends::CompressedMatrix first = codecs::encode_matrix(entry, matrix.view(), settings);
  const backends::CompressedMatrix second = codecs::encode_matrix(entry, matrix.view(), settings);
  CHECK(first.shape == matrix.shape);
  CHECK(first.source_hash == matrix.content_hash);
  CHECK(first.settings == settings);
  const codecs::ErrorBound bound =
      entry.codec->lossless ? codecs::ErrorBound{} : entry.codec->error_bound(matrix.view(), settings);
  if (bound.exact())
    CHECK(decode(entry, first) == matrix.elements);
  else
    CHECK(codecs::check_bound(matrix.view(), decode(entry, first), bound).violation == "");
  if (entry.codec->ideal_bits_per_element != nullptr && matrix.shape.elements() > 0)
    CHECK(entry.codec->ideal_bits_per_element(matrix.view(), settings) >= 0);
  REQUIRE(first.sections.size() == second.sections.size());
  for (size_t i = 0; i < first.sections.size(); ++i) {
    CHECK(first.sections[i].bytes == second.sections[i].bytes);
    CHECK(first.sections[i].padding_bytes >= 0);
    CHECK(first.sections[i].padding_bytes <= static_cast<int64_t>(first.sections[i].bytes.size()));
  }
  REQUIRE(entry.codec->max_stored_bytes != nullptr);
  CHECK(first.stored_bytes() <= entry.codec->max_stored_bytes(codecs::shape_in_bytes(matrix.view()), settings));
  return true;
}

}  // namespace

TEST_CASE("every codec says what it is") {
  REQUIRE(!tests::tested_codecs().empty());
  for (const codecs::CodecEntry& entry : tests::tested_codecs()) {
    INFO(entry.id);
    REQUIRE(entry.codec != nullptr);
    CHECK(!entry.codec->summary.empty());
    CHECK(!entry.codec->source.empty());
    CHECK(entry.codec->format_version >= 1);
    REQUIRE(entry.codec->refuses != nullptr);
    REQUIRE(entry.codec->encode != nullptr);
    REQUIRE(entry.codec->decode != nullptr);
    CHECK((entry.codec->lossless || entry.codec->error_bound != nullptr));
    for (const codecs::SettingInfo& info : entry.codec->settings) {
      INFO(info.name);
      CHECK(!info.help.empty());
      if (!info.values.empty()) {
        CHECK(info.choices.empty());
        CHECK(std::adjacent_find(info.values.begin(), info.values.end(), std::greater_equal<>()) == info.values.end());
        CHECK(std::count(info.values.begin(), info.values.end(), std::get<int64_t>(info.default_value)) == 1);
      } else if (std::holds_alternative<int64_t>(info.default_value)) {
        CHECK(info.min <= std::get<int64_t>(info.default_value));
        CHECK(std::get<int64_t>(info.default_value) <= info.max);
      } else {
        CHECK(!info.choices.empty());
      }
    }
    for (std::string_view backend : {"scalar", "simd"})
      for (const backends::Kernel& kernel : entry.kernels(backend)) {
        CHECK(!kernel.variant.empty());
        CHECK(!kernel.policies.empty());
        CHECK(kernel.refuses != nullptr);
        CHECK(kernel.bind != nullptr);
      }
  }
}

TEST_CASE("every codec of the build has here what it works with") {
  std::string reasons;
  for (const codecs::CodecEntry& entry : codecs::all_codecs()) {
    const std::string reason = entry.codec->unavailable == nullptr ? "" : entry.codec->unavailable();
    if (!reason.empty()) reasons += (reasons.empty() ? "" : " ") + std::string(entry.id) + ": " + reason;
  }
  if (!reasons.empty()) SKIP(reasons);
}

TEST_CASE("what values of settings bring along are values of other settings") {
  for (const codecs::CodecEntry& entry : codecs::all_codecs())
    for (const codecs::SettingInfo& info : entry.codec->settings)
      for (const codecs::Companion& other : info.brings) {
        INFO(entry.id << ": " << info.name << "=" << other.value << " brings " << other.setting);
        CHECK(other.setting != info.name);
        std::vector<std::string> errors;
        codecs::resolve_settings(entry.codec->settings,
                                 {{std::string(info.name), std::string(other.value)},
                                  {std::string(other.setting), std::string(other.its_value)}},
                                 errors);
        CHECK(errors.empty());
      }
}

TEST_CASE("the value that leaves a setting open is one of several that it takes") {
  for (const codecs::CodecEntry& entry : tests::tested_codecs())
    for (const codecs::SettingInfo& info : entry.codec->settings) {
      if (info.open.empty()) continue;
      INFO(entry.id << ": " << info.name);
      std::vector<std::string> errors;
      codecs::resolve_settings(entry.codec->settings, {{std::string(info.name), std::string(info.open)}}, errors);
      CHECK(errors.empty());
      CHECK((codecs::listed_values(info).size() > 1 || info.max > info.min));
    }
}

TEST_CASE("every codec round-trips every matrix with its default settings") {
  const codecs::CodecEntry& entry = each_codec();
  int accepted = 0;
  for (const datasets::Matrix& matrix : tests::test_matrices())
    accepted += conforms(entry, matrix, codecs::default_settings(*entry.codec));
  for (const datasets::Matrix& matrix : tests::typed_matrices())
    accepted += conforms(entry, matrix, codecs::default_settings(*entry.codec));
  INFO(entry.id);
  CHECK(accepted > 0);
}

TEST_CASE("every codec round-trips with every setting") {
  const codecs::CodecEntry& entry = each_codec();
  const std::vector<datasets::Matrix> matrices = {tests::gaussian_matrix({64, 512}, 4),
                                                  tests::gaussian_matrix({37, 203}, 1),
                                                  tests::distributions({33, 65})[5],
                                                  tests::gaussian_matrix({1, 1}, 4),
                                                  tests::make_matrix("constant", {32, 512}, [](int64_t) { return -5; }),
                                                  tests::bf16_matrix({37, 203}),
                                                  tests::f8_matrix({37, 203}),
                                                  tests::ternary_matrix({37, 203}),
                                                  tests::ternary_matrix({64, 128}, true)};
  for (const backends::Settings& settings : tests::settings_to_test(*entry.codec)) {
    int accepted = 0;
    for (const datasets::Matrix& matrix : matrices) accepted += conforms(entry, matrix, settings);
    INFO(entry.id << " [" << settings.to_string() << "]");
    CHECK(accepted > 0);
  }
}

TEST_CASE("one rare symbol in a million survives") {
  const codecs::CodecEntry& entry = each_codec();
  const datasets::Matrix matrix = tests::make_matrix(
      "one_in_a_million", {1024, 1024}, [](int64_t i) { return i == 777'777 ? -128 : (i % 3 == 0 ? 1 : 0); });
  conforms(entry, matrix, codecs::default_settings(*entry.codec));
}

TEST_CASE("cut and flipped bytes throw or return, never more") {
  const codecs::CodecEntry& entry = each_codec();
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  datasets::Matrix matrix = tests::gaussian_matrix({32, 512}, 4);
  if (!entry.codec->refuses(matrix.view(), settings).empty()) matrix = tests::bf16_matrix({32, 512});
  if (!entry.codec->refuses(matrix.view(), settings).empty()) matrix = tests::f8_matrix({32, 512});
  if (!entry.codec->refuses(matrix.view(), settings).empty()) SKIP("the codec refuses the matrix");
  const backends::CompressedMatrix whole = codecs::encode_matrix(entry, matrix.view(), settings);
  INFO(entry.id);
  tests::Random random{3};
  int threw = 0, cut_tries = 0, cut_threw = 0;
  // A section is copied to a block of exactly its size, so that the sanitizer sees every byte read beyond it.
  const auto survives = [&](const backends::CompressedMatrix& damaged) {
    std::vector<std::byte> out(matrix.elements.size());
    try {
      entry.codec->decode(damaged.view(), out);
    } catch (const codecs::MalformedStream& e) {
      CHECK(std::string_view(e.what()).size() > 10);
      ++threw;
      return false;
    }
    return true;
  };
  for (size_t s = 0; s < whole.sections.size(); ++s) {
    const size_t size = whole.sections[s].bytes.size();
    for (size_t keep : {size_t{0}, size_t{1}, size / 2, size - 1}) {
      if (keep >= size) continue;
      backends::CompressedMatrix damaged = whole;
      damaged.sections[s].bytes.resize(keep);
      damaged.sections[s].bytes.shrink_to_fit();
      ++cut_tries;
      cut_threw += !survives(damaged);
    }
    for (int i = 0; i < 60 && size > 0; ++i) {
      backends::CompressedMatrix damaged = whole;
      for (uint64_t flips = 1 + random.next() % 4; flips > 0; --flips)
        damaged.sections[s].bytes[random.next() % std::min<size_t>(size, i % 2 == 0 ? size : 64)] ^=
            static_cast<std::byte>(1 + random.next() % 255);
      survives(damaged);
    }
  }
  // Cutting off a whole half cannot go unnoticed everywhere.
  CHECK((cut_tries == 0 || cut_threw > 0));
  backends::CompressedMatrix missing = whole;
  missing.sections.pop_back();
  CHECK_FALSE(survives(missing));
}
