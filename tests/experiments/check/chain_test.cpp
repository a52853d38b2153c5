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

    const ReferenceChain& single = *chain.extremes->extremes;
    CHECK_FALSE(single.chained);
    REQUIRE(single.inputs.size() == dataset.layers.size());
    for (size_t layer = 0; layer < dataset.layers.size(); ++layer) {
      CHECK((single.inputs[layer].back() == -128 || single.inputs[layer].back() == 127));
      CHECK(std::ranges::count(single.inputs[layer], -128) > shape.cols / 10);
      CHECK(std::ranges::count(single.inputs[layer], 127) > shape.cols / 10);
      int otherwise = 0;
      for (size_t row = 0; row < single.outputs[layer].size(); ++row) {
        const double once = std::nearbyint(static_cast<double>(single.accumulators[layer][row]) *
                                           static_cast<double>(single.scales[layer]));
        otherwise += std::clamp(once, -128., 127.) != single.outputs[layer][row];
      }
      CHECK(otherwise > 0);
    }
  }
}
