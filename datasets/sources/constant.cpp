// Source `constant`: every element has the same value. Its entropy is 0, the corner case of every entropy coder.
#include "datasets/parameters.h"
#include "datasets/sources/distributions.h"
#include "datasets/sources/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr ParameterInfo kConstantParameters[] = {
    {.name = "value",
     .help = "value of every element",
     .default_value = 0,
     .min = -128,
     .max = 127,
     .is_integer = true},
};

Dataset load_constant(const SourceRequest& request);

}  // namespace

extern const DataSource kConstantSource{"constant", "one value everywhere", true, kConstantParameters, load_constant};

namespace {

Dataset load_constant(const SourceRequest& request) {
  const int value = Parameters(kConstantSource, request).integer("value");
  return draw_dataset(kConstantSource, request, uniform_table(value, value));
}

}  // namespace
}  // namespace ecmv::datasets
