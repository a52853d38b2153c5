// Claims about the source llm_like: it matches the published figures of its calibration.
#include <algorithm>
#include <array>
#include <bit>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>

#include "datasets/numbers.h"
#include "datasets/sources/distributions.h"
#include "datasets/sources/normal_draws.h"
#include "tests/datasets/temporary_file.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;
using Catch::Matchers::WithinAbs;

namespace {

SourceRequest request(Shape shape, int layers, uint64_t seed = 1) {
  return {.shape = shape, .layers = layers, .seed = seed, .numbers = {}, .texts = {}};
}

double entropy(std::span<const int64_t> counts) {
  double total = 0, bits = 0;
  for (const int64_t count : counts) total += double(count);
  for (const int64_t count : counts)
    if (count > 0) bits += double(count) * std::log2(total / double(count));
  return bits / total;
}

std::array<int64_t, 256> exponents(const Matrix& matrix) {
  std::array<int64_t, 256> counts{};
  for (size_t i = 0; i < matrix.elements.size(); i += 2)
    ++counts[(size_t(matrix.elements[i + 1]) << 1 & 255) | size_t(matrix.elements[i]) >> 7];
  return counts;
}

// Quantises like the coding-pairs paper (Liguori 2024, section 3.3; the formula is recovered from its second table): to
// N bits and a sign by one maximum a matrix.
std::vector<int> linear(const Matrix& matrix, int bits) {
  std::vector<double> weights(size_t(matrix.shape.elements()));
  read_numbers(matrix.view(), 0, weights);
  double largest = 0;
  for (const double weight : weights) largest = std::max(largest, std::fabs(weight));
  std::vector<int> integers;
  for (const double weight : weights)
    integers.push_back(int(std::nearbyint(weight * (double((1 << bits) - 1) / largest))));
  return integers;
}

// Bits a weight if the position of the leading one is coded ideally, and sign and the bits after it are raw.
double leading_bit_cost(const std::vector<int>& integers) {
  std::array<int64_t, 20> counts{};
  double raw = 0;
  for (const int integer : integers) {
    const int bits = std::bit_width(unsigned(std::abs(integer)));
    ++counts[size_t(bits)];
    raw += bits;
  }
  return entropy(counts) + raw / double(integers.size());
}

}  // namespace

TEST_CASE("llm_like has 31 exponents with the published entropy") {
  for (const uint64_t seed : {1, 2}) {
    const Dataset dataset = load("llm_like", request({1024, 1024}, 8, seed));
    double mean = 0;
    for (const Matrix& matrix : dataset.layers) {
      CHECK(matrix.type == ElementType::bf16);
      const auto counts = exponents(matrix);
      CHECK(std::count_if(counts.begin(), counts.end(), [](int64_t n) { return n > 0; }) == 31);
      mean += entropy(counts) / 8;
    }
    CHECK_THAT(mean, WithinAbs(2.577, 0.005));
  }
}

TEST_CASE("llm_like, quantised, has the published sizes and one bit more for each bit") {
  constexpr std::array kPublished = {3.391, 4.391, 5.391, 6.392, 7.392, 8.393};
  const Dataset dataset = load("llm_like", request({512, 1024}, 16));
  double last = 0;
  for (int bits = 6; bits <= 11; ++bits) {
    double cost = 0;
    for (const Matrix& matrix : dataset.layers) {
      cost += leading_bit_cost(linear(matrix, bits)) / 16;
    }
    CHECK_THAT(cost, WithinAbs(kPublished[size_t(bits - 6)], 0.02));
    if (bits > 6) CHECK_THAT(cost - last, WithinAbs(1.0, 0.003));
    last = cost;
  }
}

TEST_CASE("llm_like is the same on every platform, and a layer does not depend on the number of layers") {
  const Dataset one = load("llm_like", request({61, 53}, 1)), four = load("llm_like", request({61, 53}, 4));
  CHECK(one.layers[0].elements == four.layers[0].elements);
  CHECK(four.layers[0].content_hash == 0x3FB74BADDE9417A2);
  CHECK(four.layers[3].content_hash == 0x472B8BB7FDD8F6CB);
  CHECK(load("llm_like", request({100, 100}, 1, 7)).layers[0].content_hash == 0x2C07A26E776D8AD7);
  CHECK(load("llm_like", request({1, 1}, 1)).layers[0].elements.size() == 2);
  REQUIRE_DATASET_ERROR(load("llm_like", request({0, 1}, 1)), "at least one row");
}

TEST_CASE("llm_like as f8_e4m3 fills the range of the type, with the exponents of its bf16 weights") {
  SourceRequest small = request({256, 1024}, 2);
  small.texts["type"] = "f8_e4m3";
  const Dataset f8 = load("llm_like", small), bf16 = load("llm_like", request({256, 1024}, 2));
  for (size_t layer = 0; layer < 2; ++layer) {
    const Matrix& matrix = f8.layers[layer];
    REQUIRE(matrix.type == ElementType::f8_e4m3);
    std::vector<double> scaled(static_cast<size_t>(matrix.shape.elements())), weights = scaled;
    read_numbers(matrix.view(), 0, scaled);
    read_numbers(bf16.layers[layer].view(), 0, weights);
    const auto magnitude = [](double a, double b) { return std::fabs(a) < std::fabs(b); };
    CHECK(std::fabs(*std::ranges::max_element(scaled, magnitude)) == 448);
    const double scale = 448 / std::fabs(*std::ranges::max_element(weights, magnitude));
    for (size_t i = 0; i < scaled.size(); ++i)
      if (!(std::fabs(scaled[i] - weights[i] * scale) <= std::max(std::fabs(scaled[i]) / 16, 0x1p-10))) FAIL(i);
  }
  small.texts["type"] = "f16";
  REQUIRE_DATASET_ERROR(load("llm_like", small), "bf16 or f8_e4m3");
}

TEST_CASE("normal pairs have the moments of two independent normal variates") {
  double sum[2] = {}, squares[2] = {}, product = 0, fourth = 0;
  constexpr int kPairs = 500'000;
  for (int i = 0; i < kPairs; ++i) {
    const auto pair = normal_pair(random_words(3, 1, DrawPurpose::weights, uint64_t(i)));
    for (int k = 0; k < 2; ++k) sum[k] += pair[size_t(k)], squares[k] += pair[size_t(k)] * pair[size_t(k)];
    product += pair[0] * pair[1];
    fourth += std::pow(pair[0], 4);
  }
  for (int k = 0; k < 2; ++k) {
    CHECK_THAT(sum[k] / kPairs, WithinAbs(0, 0.006));
    CHECK_THAT(squares[k] / kPairs, WithinAbs(1, 0.008));
  }
  CHECK_THAT(product / kPairs, WithinAbs(0, 0.006));
  CHECK_THAT(fourth / kPairs, WithinAbs(3, 0.08));
  // The definition, by the library's functions.
  const auto words = random_words(3, 1, DrawPurpose::weights, 17);
  const double radius = std::sqrt(-2 * std::log(1 - uniform_of(words[0]))),
               angle = 2 * 3.14159265358979323846 * uniform_of(words[1]);
  CHECK_THAT(normal_pair(words)[0], WithinAbs(radius * std::cos(angle), 1e-14));
  CHECK_THAT(normal_pair(words)[1], WithinAbs(radius * std::sin(angle), 1e-14));
  CHECK_THAT(normal_quantile(0.5 + 0.3413447460685429), WithinAbs(1, 1e-12));
  CHECK_THAT(normal_quantile(0.022750131948179207), WithinAbs(-2, 1e-12));
}
