// Claims about the reference chains.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>

#include "experiments/check/chain.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::experiments;

TEST_CASE("extremes are in the last column of every layer, and some of their results show each way of rounding") {
  for (const datasets::Shape shape : {datasets::Shape{64, 64}, datasets::Shape{301, 33}}) {
    datasets::Dataset dataset;
    for (const uint64_t seed : {1, 2, 3}) dataset.layers.push_back(tests::gaussian_matrix(shape, 4, seed));
    dataset.initial_vector.assign(static_cast<size_t>(shape.cols), 1);
    const ReferenceChain chain = compute_reference_chain(dataset);
    REQUIRE(chain.extremes != nullptr);
    REQUIRE(chain.extremes->extremes != nullptr);
    CHECK(chain.extremes->extremes->extremes == nullptr);
    CHECK(chain.extremes->inputs[0].back() == -128);

    const ReferenceChain& scattered = *chain.extremes->extremes;
    CHECK(scattered.scales == chain.extremes->scales);
    for (const std::vector<int8_t>& input : scattered.inputs) {
      CHECK((input.back() == -128 || input.back() == 127));
      CHECK(std::ranges::count(input, -128) > shape.cols / 10);
      CHECK(std::ranges::count(input, 127) > shape.cols / 10);
    }
    int otherwise = 0;
    for (size_t row = 0; row < chain.extremes->outputs[1].size(); ++row) {
      const double once = std::nearbyint(static_cast<double>(chain.extremes->accumulators[1][row]) *
                                         static_cast<double>(chain.extremes->scales[1]));
      otherwise += std::clamp(once, -128., 127.) != chain.extremes->outputs[1][row];
    }
    CHECK(otherwise > 0);
  }
}
