// Source `laplace`: elements of the density exp(-|x| / b) / (2 b), rounded to the nearest integer and clipped
// to +-127: heavier tails than a Gaussian of the same entropy. The scale is given directly or by the
// differential entropy of the unrounded density: b = 2^H / (2 e).
#include "datasets/parameters.h"
#include "datasets/sources/distributions.h"
#include "datasets/sources/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr double k2E = 5.43656365691809;

constexpr ParameterInfo kLaplaceParameters[] = {
    {.name = "b", .help = "scale of the density, in units of one step", .min = 0.01, .max = 1e4},
    {.name = "entropy_bits", .help = "entropy in bits per element; gives b = 2^H / (2 e)", .min = 0, .max = 8},
};

Dataset load_laplace(const SourceRequest& request);

}  // namespace

extern const DataSource kLaplaceSource{"laplace", "exp(-|x| / b) rounded to integers and clipped to +-127", true,
                                       kLaplaceParameters, load_laplace};

namespace {

Dataset load_laplace(const SourceRequest& request) {
  const Parameters parameters(kLaplaceSource, request);
  const bool direct = parameters.exactly_one("b", "entropy_bits") == "b";
  const double scale = direct ? parameters.number("b") : exact_exp2(parameters.number("entropy_bits")) / k2E;
  return draw_dataset(kLaplaceSource, request, laplace_table(scale));
}

}  // namespace
}  // namespace ecmv::datasets
