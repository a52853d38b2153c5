// Claims about the search of `ecmv tune`, whose measurements are made up here: it finds the settings that are known to
// be the fastest, and no others.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>
#include <stdexcept>

#include "experiments/config/experiment.h"
#include "experiments/tune/search.h"
#include "tests/experiments/test_codecs.h"

using namespace ecmv;
using namespace ecmv::experiments;
using Catch::Matchers::WithinRel;

namespace {

std::string refuses_wide_b(datasets::MatrixView, const backends::Settings& settings) {
  return settings.text("mode") == "b" && settings.integer("width") == 8 ? "Too wide." : "";
}

std::span<const codecs::CodecEntry> test_codecs() {
  static const codecs::Codec open = [] {
    codecs::Codec codec = tests::make_codec();
    codec.refuses = refuses_wide_b;
    codec.settings = {
        {.name = "width", .unit = "", .help = "h", .default_value = int64_t{0}, .values = {0, 1, 2, 4, 8}, .open = "0"},
        {.name = "mode", .unit = "", .help = "h", .default_value = "any", .choices = {"any", "a", "b"}, .open = "any"},
        {.name = "aim", .unit = "", .help = "h", .default_value = "size", .choices = {"size", "speed"}}};
    return codec;
  }();
  static const codecs::Codec closed = tests::make_codec();
  static const std::vector<backends::Kernel> kernels = {tests::make_kernel<tests::multiply>(),
                                                        tests::make_kernel<tests::multiply_tokens>(),
                                                        tests::make_kernel<tests::multiply_tokens>("second")};
  static const std::vector<codecs::CodecEntry> entries = {{"closed", &closed, kernels, {}},
                                                          {"open", &open, kernels, {}}};
  return entries;
}

std::vector<Case> cases(const std::string& codec, const std::string& kernels, const std::string& data = "d: 64") {
  return parse_experiment("schema: 1\nname: x\nexperiments:\n  - data: {source: gaussian, sigma: 4, layers: 1, " +
                              data + "}\n    codecs: " + codec + "\n    kernels: {backend: scalar, " + kernels + "}\n",
                          "x.yaml", {}, test_codecs())
      .cases;
}

bool never() { return false; }

// Measures by a formula, and counts.
struct Fake {
  std::function<double(const Case&)> seconds;
  std::function<double(const Case&)> bits = [](const Case&) { return 4.0; };
  size_t measured = 0;
  std::map<std::string, MeasuredCase> operator()(const std::vector<Case>& all) {
    std::map<std::string, MeasuredCase> found;
    for (const Case& one : all) {
      ++measured;
      const auto& settings = one.codec.settings;
      CHECK_FALSE((one.codec.id == "open" && settings.text("mode") == "b" && settings.integer("width") == 8));
      if (const double s = seconds(one); std::isfinite(s)) found[one.key()] = {s, bits(one), "i8", one.data.shape};
    }
    return found;
  }
};

std::vector<TunedResult> search(const std::vector<Case>& asked, Fake& fake, const SearchOptions& options) {
  TuneSearch search(asked, test_codecs(), options);
  const size_t most = search.most_cases();
  const auto results = search.run([&](const std::vector<Case>& all) { return fake(all); }, never);
  CHECK(fake.measured <= most);
  return results;
}

int64_t width(const Case& one) { return one.codec.settings.integer("width"); }
std::string mode(const Case& one) { return one.codec.settings.text("mode"); }

// 4 and b are the fastest; left open, the codec takes 1 and a.
double known(const Case& one) {
  const int64_t w = width(one) == 0 ? 1 : width(one);
  return 1 + std::abs(std::log2(static_cast<double>(w) / 4)) + (mode(one) == "b" ? 0.0 : 0.5);
}

}  // namespace

TEST_CASE("tune finds the settings that are known to be the fastest, in a whole grid and one after the other") {
  for (const size_t whole_grid : {size_t{0}, size_t{64}}) {
    Fake fake{known};
    const auto results = search(cases("[closed, open]", "op: matvec"), fake, {.whole_grid = whole_grid});
    REQUIRE(results.size() == 1);
    const TunedEntry& entry = results[0].entry;
    CHECK(entry.found == GivenSettings{{"width", "4"}, {"mode", "b"}});
    CHECK(entry.key.asked.empty());
    CHECK(entry.key.codec == "open");
    CHECK(entry.key.type == "i8");
    CHECK(entry.key.shape == datasets::Shape{64, 64});
    CHECK(entry.key.op == "matvec");
    CHECK(entry.key.activations.empty());
    CHECK(entry.batches.empty());
    CHECK_THAT(entry.model_off, WithinRel(3.5, 1e-9));
    // 5 widths times 3 modes, less the refused one; the whole grid once, and then both again.
    if (whole_grid > 0) CHECK(fake.measured == 14 + 2);
  }
}

TEST_CASE("tune keeps the open settings where nothing is faster, and says so") {
  Fake fake{[](const Case& one) { return width(one) == 0 && mode(one) == "any" ? 1.0 : 0.995; }};
  const auto results = search(cases("open", "op: matvec"), fake, {});
  REQUIRE(results.size() == 1);
  CHECK(results[0].entry.found.empty());
  CHECK(results[0].entry.model_off == 1);
}

TEST_CASE("tune searches only what is open") {
  Fake fake{known};
  const auto results = search(cases("{open: {mode: a, aim: speed}}", "op: matvec"), fake, {});
  REQUIRE(results.size() == 1);
  CHECK(results[0].entry.found == GivenSettings{{"width", "4"}});
  CHECK(results[0].entry.key.asked == GivenSettings{{"mode", "a"}, {"aim", "speed"}});
}

TEST_CASE("tune takes the settings with the best geometric mean over the tokens, each with its fastest kernel") {
  // With one token width 1 is twice as fast, with 16 a fifth as fast.
  Fake fake{[](const Case& one) {
    const double slow_kernel = one.kernel.variant == "second" ? 1 : 3;
    if (width(one) == 1) return slow_kernel * (one.kernel.batch == 1 ? 0.5 : 5);
    if (width(one) == 2) return slow_kernel * (one.kernel.batch == 1 ? 0.9 : 0.8);
    return slow_kernel;
  }};
  const auto results = search(cases("open", "op: matmul, batch: [1, 16]"), fake, {});
  REQUIRE(results.size() == 1);
  CHECK(results[0].entry.found == GivenSettings{{"width", "2"}});
  CHECK(results[0].entry.batches == std::vector{1, 16});
  CHECK(results[0].entry.key.activations == "f32");
  CHECK_THAT(results[0].found_s, WithinRel(std::sqrt(0.9 * 0.8), 1e-9));
  CHECK_THAT(results[0].open_s, WithinRel(1.0, 1e-9));
}

TEST_CASE("tune does not take settings that lack a measurement, or that store much more") {
  Fake fake{known};
  fake.seconds = [](const Case& one) { return width(one) == 4 && one.kernel.batch == 1 ? NAN : known(one); };
  fake.bits = [](const Case& one) { return mode(one) == "b" ? 4.5 : 4.1; };
  const auto results = search(cases("open", "op: matmul, batch: [1, 2]"), fake, {.most_bits = 1.05});
  REQUIRE(results.size() == 1);
  CHECK((results[0].entry.found == GivenSettings{{"width", "2"}} ||
         results[0].entry.found == GivenSettings{{"width", "8"}}));
  CHECK(results[0].found_bits == 4.1);
}

TEST_CASE("tune has a result for each shape, op and kind of tokens") {
  Fake fake{[](const Case& one) { return one.data.shape.rows == 64 ? known(one) : 1.0; }};
  const auto results = search(cases("open", "op: [matvec, matmul]", "shapes: [[64, 32], [32, 64]]"), fake, {});
  REQUIRE(results.size() == 4);
  for (const TunedResult& one : results) CHECK(one.entry.found.empty() == (one.entry.key.shape.rows == 32));
}

TEST_CASE("tune says why it has nothing to search, or no result") {
  const auto refused = [](const std::vector<Case>& all) {
    CHECK_THROWS_AS(TuneSearch(all, test_codecs(), {}), std::invalid_argument);
  };
  refused(cases("closed", "op: matvec"));
  refused(cases("open", "op: size"));
  refused(cases("{open: {width: 1, mode: a}}", "op: matvec"));
  TuneSearch untimed(cases("open", "op: matvec"), test_codecs(), {});
  CHECK(untimed.run([](const std::vector<Case>&) { return std::map<std::string, MeasuredCase>(); }, never).empty());
  CHECK(untimed.remarks().size() == 1);
  TuneSearch stopped(cases("open", "op: matvec"), test_codecs(), {});
  Fake fake{known};
  CHECK(stopped.run([&](const std::vector<Case>& all) { return fake(all); }, [] { return true; }).empty());
  CHECK(fake.measured == 0);
}
