// Source `two_symbols`: elements are `b` with a given probability, otherwise `a`. It shows what a code loses when
// symbols have less than a bit.
#include "datasets/parameters.h"
#include "datasets/sources/distributions.h"
#include "datasets/sources/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr ParameterInfo kTwoSymbolsParameters[] = {
    {.name = "a", .help = "the one value", .default_value = 0, .min = -128, .max = 127, .is_integer = true},
    {.name = "b", .help = "the other value", .default_value = 1, .min = -128, .max = 127, .is_integer = true},
    {.name = "probability_b", .help = "probability of b", .default_value = 0.5, .min = 0, .max = 1},
};

Dataset load_two_symbols(const SourceRequest& request);

}  // namespace

extern const DataSource kTwoSymbolsSource{"two_symbols", "b with probability_b, otherwise a", true,
                                          kTwoSymbolsParameters, load_two_symbols};

namespace {

Dataset load_two_symbols(const SourceRequest& request) {
  const Parameters parameters(kTwoSymbolsSource, request);
  const int a = parameters.integer("a");
  const int b = parameters.integer("b");
  if (a == b) {
    throw DatasetError("The source two_symbols needs two different values, but a and b are both " + std::to_string(a) +
                       "; use the source constant for one value.");
  }
  return draw_dataset(kTwoSymbolsSource, request, two_symbols_table(a, b, parameters.number("probability_b")));
}

}  // namespace
}  // namespace ecmv::datasets
