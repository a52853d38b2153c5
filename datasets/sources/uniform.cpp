// Source `uniform`: every integer of [low, high] equally likely; the default range is all 256 bytes, which no
// code can shorten.
#include "datasets/parameters.h"
#include "datasets/sources/distributions.h"
#include "datasets/sources/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr ParameterInfo kUniformParameters[] = {
    {.name = "low", .help = "smallest value", .default_value = -128, .min = -128, .max = 127, .is_integer = true},
    {.name = "high", .help = "largest value", .default_value = 127, .min = -128, .max = 127, .is_integer = true},
};

Dataset load_uniform(const SourceRequest& request);

}  // namespace

extern const DataSource kUniformSource{"uniform", "integers of [low, high], equally likely", true, kUniformParameters,
                                       load_uniform};

namespace {

Dataset load_uniform(const SourceRequest& request) {
  const Parameters parameters(kUniformSource, request);
  const int low = parameters.integer("low");
  const int high = parameters.integer("high");
  if (low > high) {
    throw DatasetError("The source uniform needs low <= high, not low = " + std::to_string(low) +
                       " and high = " + std::to_string(high) + ".");
  }
  return draw_dataset(kUniformSource, request, uniform_table(low, high));
}

}  // namespace
}  // namespace ecmv::datasets
