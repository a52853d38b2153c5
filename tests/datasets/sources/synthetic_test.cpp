// Claims about the synthetic sources: the numbers that they draw for a request, and their refusals.
#include <algorithm>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "tests/datasets/temporary_file.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;
using Catch::Matchers::WithinAbs;

namespace {

SourceRequest request(Shape shape, std::map<std::string, double> numbers, int layers = 1, uint64_t seed = 1) {
  return {.shape = shape, .layers = layers, .seed = seed, .numbers = std::move(numbers), .texts = {}};
}

uint64_t vector_hash(const std::vector<int8_t>& vector) {
  return content_hash({{1, int64_t(vector.size())}, ElementType::i8, std::as_bytes(std::span(vector))});
}

// The ids in the first column of the README's table of sources.
std::set<std::string> sources_of_readme() {
  std::ifstream file(ECMV_SOURCE_DIR "/datasets/README.md");
  std::string line;
  while (std::getline(file, line) && line != "## Sources") {
  }
  std::set<std::string> ids;
  while (std::getline(file, line) && !line.starts_with("* ")) {
    std::istringstream column(line.substr(0, line.find('|', 1)));
    for (std::string before, id; std::getline(column, before, '`') && std::getline(column, id, '`');) ids.insert(id);
  }
  return ids;
}

}  // namespace

TEST_CASE("the same seed gives the same bytes on every platform") {
  const Dataset gaussian = load("gaussian", request({61, 53}, {{"sigma", 4}}, 2, 1));
  CHECK(gaussian.layers[0].content_hash == 0x2DE79493DE971CAA);
  CHECK(gaussian.layers[1].content_hash == 0xAEAB69309C96CEEA);
  CHECK(vector_hash(gaussian.initial_vector) == 0xDA2334AB1EE17233);
  CHECK(load("gaussian", request({300, 1000}, {{"entropy_bits", 5}}, 1, 1ull << 40)).layers[0].content_hash ==
        0xD608AD97D4A3287C);
  CHECK(load("laplace", request({61, 53}, {{"b", 2.5}})).layers[0].content_hash == 0xCD58EE7FC451BBA6);
  CHECK(load("laplace", request({61, 53}, {{"entropy_bits", 5}})).layers[0].content_hash == 0xC7A8B353F088D2D6);
  CHECK(load("uniform", request({61, 53}, {})).layers[0].content_hash == 0x4E6D7923920B8373);
  CHECK(load("uniform", request({61, 53}, {{"low", -2}, {"high", 8}})).layers[0].content_hash == 0x2CF0E73A7911AEEB);
  CHECK(load("constant", request({61, 53}, {{"value", -128}})).layers[0].content_hash == 0x0A1F98A96B233F3C);
  CHECK(load("two_symbols", request({61, 53}, {{"a", 3}, {"b", -3}, {"probability_b", 0.1}})).layers[0].content_hash ==
        0x086C43A1314BFF8A);
}

TEST_CASE("ternary matrices hold -1, 0 and 1 as often as asked") {
  const Dataset dataset = load("ternary", request({300, 1000}, {{"probability_zero", 0.7}}));
  int64_t counts[3] = {};
  for (const int8_t value : dataset.layers[0].view().i8()) {
    if (value < -1 || value > 1) FAIL(int(value));
    ++counts[value + 1];
  }
  CHECK_THAT(double(counts[1]) / 300'000, WithinAbs(0.7, 0.005));
  CHECK_THAT(double(counts[0]) / 300'000, WithinAbs(0.15, 0.005));
  CHECK_THAT(double(counts[2]) / 300'000, WithinAbs(0.15, 0.005));
  CHECK(load("ternary", request({61, 53}, {})).layers[0].content_hash == 0x1E9FD5C338062EB0);
}

TEST_CASE("a layer does not depend on the number of layers") {
  const Dataset one = load("gaussian", request({32, 48}, {{"sigma", 4}}, 1));
  const Dataset four = load("gaussian", request({32, 48}, {{"sigma", 4}}, 4));
  REQUIRE(four.layers.size() == 4);
  CHECK(one.layers[0].elements == four.layers[0].elements);
  CHECK(one.initial_vector == four.initial_vector);
}

TEST_CASE("layers, seeds and the initial vector are different draws") {
  std::set<uint64_t> drawn;
  for (const uint64_t seed : {1ull, 2ull, 1ull << 32}) {
    const Dataset dataset = load("gaussian", request({1, 64}, {{"sigma", 4}}, 3, seed));
    for (const Matrix& matrix : dataset.layers) drawn.insert(matrix.content_hash);
    drawn.insert(vector_hash(dataset.initial_vector));
  }
  CHECK(drawn.size() == 12);
}

TEST_CASE("matrices come with name, shape, type and hash") {
  const Dataset dataset = load("gaussian", request({5, 9}, {{"sigma", 4}}, 2));
  CHECK(dataset.layers[1].name == "layer_1");
  CHECK(dataset.layers[1].shape == Shape{5, 9});
  CHECK(dataset.layers[1].type == ElementType::i8);
  CHECK(dataset.layers[1].elements.size() == 45);
  CHECK(dataset.layers[1].content_hash == content_hash(dataset.layers[1].view()));
  CHECK(dataset.initial_vector.size() == 9);
}

TEST_CASE("the drawn entropy is the asked one") {
  const auto entropy = [](const char* source, std::map<std::string, double> numbers) {
    return entropy_bits_per_element(load(source, request({1024, 1024}, std::move(numbers))).layers[0].view());
  };
  CHECK_THAT(entropy("gaussian", {{"sigma", 4}}), WithinAbs(4.051, 0.004));
  CHECK_THAT(entropy("gaussian", {{"sigma", 7.74}}), WithinAbs(5.000, 0.004));
  CHECK_THAT(entropy("gaussian", {{"entropy_bits", 5}}), WithinAbs(5.001, 0.004));
  CHECK_THAT(entropy("laplace", {{"entropy_bits", 5}}), WithinAbs(5.000, 0.006));
  CHECK_THAT(entropy("uniform", {{"low", -8}, {"high", 7}}), WithinAbs(4.0, 0.001));
  CHECK(entropy("constant", {{"value", 3}}) == 0);
  CHECK_THAT(entropy("two_symbols", {{"probability_b", 0.11}}), WithinAbs(0.49992, 0.003));
}

TEST_CASE("a gaussian is clipped to +-127 and never gives -128") {
  const auto elements = load("gaussian", request({300, 300}, {{"sigma", 500}})).layers[0];
  const auto values = elements.view().i8();
  CHECK(*std::min_element(values.begin(), values.end()) == -127);
  CHECK(*std::max_element(values.begin(), values.end()) == 127);
}

TEST_CASE("bad parameters of synthetic sources end in a sentence that names them") {
  const Shape shape{8, 8};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  REQUIRE_DATASET_ERROR(load("gaussian", request(shape, {})), "exactly one of \"sigma\" and \"entropy_bits\"; none");
  REQUIRE_DATASET_ERROR(load("gaussian", request(shape, {{"sigma", 4}, {"entropy_bits", 5}})), "both were given");
  REQUIRE_DATASET_ERROR(load("gaussian", request(shape, {{"sigma", 0}})), "at least 0.01, not 0");
  REQUIRE_DATASET_ERROR(load("gaussian", request(shape, {{"sigma", nan}})), "finite number");
  REQUIRE_DATASET_ERROR(load("gaussian", request(shape, {{"sigma", infinity}})), "finite number");
  REQUIRE_DATASET_ERROR(load("gaussian", request(shape, {{"entropy_bits", 9}})), "at most 8, not 9");
  REQUIRE_DATASET_ERROR(load("gaussian", request(shape, {{"sgima", 4}})), "no parameter \"sgima\"; it has sigma");
  REQUIRE_DATASET_ERROR(load("laplace", request(shape, {{"sigma", 4}})), "no parameter \"sigma\"");
  REQUIRE_DATASET_ERROR(load("laplace", request(shape, {{"b", 1}, {"entropy_bits", 3}})), "exactly one");
  REQUIRE_DATASET_ERROR(load("uniform", request(shape, {{"low", 3}, {"high", 2}})), "low <= high");
  REQUIRE_DATASET_ERROR(load("uniform", request(shape, {{"low", -129}})), "at least -128");
  REQUIRE_DATASET_ERROR(load("uniform", request(shape, {{"high", 0.5}})), "must be an integer, not 0.5");
  REQUIRE_DATASET_ERROR(load("constant", request(shape, {{"value", 128}})), "at most 127");
  REQUIRE_DATASET_ERROR(load("two_symbols", request(shape, {{"a", 1}})), "two different values");
  REQUIRE_DATASET_ERROR(load("two_symbols", request(shape, {{"probability_b", 1.01}})), "at most 1");
  SourceRequest text = request(shape, {});
  text.texts["sigma"] = "four";
  REQUIRE_DATASET_ERROR(load("gaussian", text), "is a number, but the text \"four\"");
}

TEST_CASE("bad shapes of synthetic sources end in a sentence") {
  const std::map<std::string, double> numbers{{"sigma", 4}};
  REQUIRE_DATASET_ERROR(load("gaussian", request({0, 8}, numbers)), "at least one row");
  REQUIRE_DATASET_ERROR(load("gaussian", request({8, 0}, numbers)), "not [8, 0]");
  REQUIRE_DATASET_ERROR(load("gaussian", request({-1, 8}, numbers)), "not [-1, 8]");
  REQUIRE_DATASET_ERROR(load("gaussian", request({8, 8}, numbers, 0)), "at least one layer");
  REQUIRE_DATASET_ERROR(load("gaussian", request({int64_t{1} << 32, int64_t{1} << 31}, numbers)), "exceeds 2^63 - 1");
  REQUIRE_DATASET_ERROR(load("gaussian", request({int64_t{1} << 31, int64_t{1} << 31}, numbers, 2)),
                        "exceeds 2^63 - 1");
}

TEST_CASE("the sources are those of the README's table, and each is found by its id") {
  std::set<std::string> ids;
  for (const DataSource& source : all_sources()) {
    CHECK(find_source(source.id) == &source);
    CHECK(!source.summary.empty());
    ids.emplace(source.id);
    for (const ParameterInfo& parameter : source.parameters) CHECK(!parameter.help.empty());
  }
  CHECK(ids == sources_of_readme());
  CHECK(find_source("gauss") == nullptr);
}
