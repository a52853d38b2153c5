// Source `gaussian`: elements of N(0, sigma^2), rounded to the nearest integer and clipped to +-127 (the weights of the
// MatVANS experiments), or to fewer values for quantisers of few levels. The width is given directly or by the
// differential entropy of the unrounded density: sigma = 2^H / sqrt(2 pi e). (Rounding adds log2(1 + 1/(12 sigma^2)) /
// 2 bits to it: 0.004 at sigma 4.)
#include "datasets/parameters.h"
#include "datasets/sources/distributions.h"
#include "datasets/sources/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr double kRoot2PiE = 4.132731354122493;

constexpr ParameterInfo kGaussianParameters[] = {
    {.name = "sigma", .help = "standard deviation before rounding, in units of one step", .min = 0.01, .max = 1e4},
    {.name = "entropy_bits",
     .help = "entropy in bits per element; gives sigma = 2^H / sqrt(2 pi e)",
     .min = 0,
     .max = 8},
    {.name = "clip",
     .help = "largest magnitude, 127 if not given: what is beyond becomes it",
     .min = 1,
     .max = 127,
     .is_integer = true},
};

Dataset load_gaussian(const SourceRequest& request);

}  // namespace

extern const DataSource kGaussianSource{"gaussian", "N(0, sigma^2) rounded to integers and clipped to +-127", true,
                                        kGaussianParameters, load_gaussian};

namespace {

Dataset load_gaussian(const SourceRequest& request) {
  const Parameters parameters(kGaussianSource, request);
  const bool direct = parameters.exactly_one("sigma", "entropy_bits") == "sigma";
  const double sigma = direct ? parameters.number("sigma") : exact_exp2(parameters.number("entropy_bits")) / kRoot2PiE;
  return draw_dataset(kGaussianSource, request,
                      gaussian_table(sigma, parameters.has("clip") ? parameters.integer("clip") : 127));
}

}  // namespace
}  // namespace ecmv::datasets
