// Source `ternary`: -1, 0 and 1, like the weights of 1.58-bit language models; zeros with a given probability, both
// signs equally likely.
#include "datasets/parameters.h"
#include "datasets/sources/distributions.h"
#include "datasets/sources/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr ParameterInfo kTernaryParameters[] = {
    {.name = "probability_zero", .help = "probability of 0", .default_value = 0.5, .min = 0, .max = 1},
};

Dataset load_ternary(const SourceRequest& request);

}  // namespace

extern const DataSource kTernarySource{"ternary", "-1, 0 and 1: 0 with probability_zero, both signs equally likely",
                                       true, kTernaryParameters, load_ternary};

namespace {

Dataset load_ternary(const SourceRequest& request) {
  const Parameters parameters(kTernarySource, request);
  return draw_dataset(kTernarySource, request, ternary_table(parameters.number("probability_zero")));
}

}  // namespace
}  // namespace ecmv::datasets
