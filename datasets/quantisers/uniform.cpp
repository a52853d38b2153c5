// Quantiser `uniform`: multiples of a step that does not depend on the largest weight, for codes that store rare values
// in many bits. At high rates no scalar quantiser is better where the entropy counts (Gish and Pierce 1968).
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "datasets/quantisers/tools.h"

namespace ecmv::datasets {
namespace {

constexpr double kGreatestInteger = 127;
constexpr double kRootOf2PiE = 4.132731354122493;
constexpr double kEntropyMiss = 0.05;         // bits that the entropy may miss
constexpr double kEntropyOfRounding = 0.006;  // bits that a step rounded to bf16 may move it
// For a larger matrix the step is first searched in some of its rows: quantising all of 16384 x 16384 takes seconds,
// and halving the interval does so twelve times.
constexpr int64_t kSampledElements = int64_t{1} << 22;

constexpr ParameterInfo kUniformParameters[] = {
    {.name = "step", .help = "in units of the root mean square of what shares a scale", .min = 1e-3, .max = 100},
    {.name = "entropy",
     .help = "bits an element: the step is found that gives this order-0 entropy of the matrix",
     .min = 0.01,
     .max = 7.5},
    {.name = "dead_zone", .help = "steps to each side of zero that become zero; 0.5 if left out", .min = 0.5, .max = 8},
    {.name = "group", .help = "what shares a scale: tensor or row", .is_text = true, .default_text = "tensor"},
};

bool has_rows(const Parameters& parameters) { return parameters.text("group") == "row"; }

// One scale for the tensor, or one for each row.
std::vector<double> root_mean_squares(const Matrix& matrix, bool of_rows) {
  std::vector<double> squares(size_t(matrix.shape.rows));
  for_each_row(matrix, [&](int64_t row, std::span<const double> weights) {
    squares[size_t(row)] = std::inner_product(weights.begin(), weights.end(), weights.begin(), 0.0);
  });
  if (!of_rows) squares = {std::accumulate(squares.begin(), squares.end(), 0.0) / double(matrix.shape.rows)};
  for (double& square : squares) square = std::sqrt(square / double(matrix.shape.cols));
  return squares;
}

class Uniform {
 public:
  Uniform(const Matrix& matrix, bool of_rows, double dead_zone)
      : matrix_(matrix),
        of_rows_(of_rows),
        shared_(grouping(matrix.shape, of_rows ? "row" : "tensor")),
        magnitudes_(root_mean_squares(matrix, of_rows)),
        dead_zone_(dead_zone) {}

  // The steps are `step` root mean squares wide.
  Quantised quantised(double step) const {
    std::vector<double> steps = magnitudes_;
    for (double& value : steps) value *= step;
    Quantised result;
    result.scales = bf16_scales(shared_, steps);
    result.matrix = scaled_elements(matrix_, result.scales, ElementType::i8, [&](double in_steps) {
      return int8_t(std::fabs(in_steps) < dead_zone_
                        ? 0
                        : std::clamp(std::nearbyint(in_steps), -kGreatestInteger, kGreatestInteger));
    });
    return result;
  }

  Quantised with_entropy(double bits) const {
    if (matrix_.shape.elements() > kSampledElements)
      if (std::optional<Quantised> result = near_sample(bits)) return *std::move(result);
    Quantised result = quantised(step_for(bits));
    const double got = entropy_bits_per_element(result.matrix.view());
    if (std::fabs(got - bits) > kEntropyMiss)
      throw DatasetError("No step gives the matrix \"" + matrix_.name + "\" an entropy of " + std::to_string(bits) +
                         " bits an element; the nearest is " + std::to_string(got) + ".");
    return result;
  }

 private:
  // The entropy falls as the step grows, so this halves the interval of the step's logarithm, to a bf16's precision.
  double step_for(double bits) const {
    const double begin = kRootOf2PiE / std::exp2(bits);  // a Gaussian's
    double low = begin / 64, high = begin * 64;
    while (high / low > 1.002) {
      const double middle = std::sqrt(low * high);
      (entropy_bits_per_element(quantised(middle).matrix.view()) > bits ? low : high) = middle;
    }
    return high;
  }

  // Starts from the step for some rows and uses that doubling the step takes nearly a bit from the entropy. Nothing if
  // that does not reach the precision of halving.
  std::optional<Quantised> near_sample(double bits) const {
    const Matrix rows = some_rows();
    double step = Uniform(rows, of_rows_, dead_zone_).step_for(bits);
    for (int i = 0; i < 4; ++i) {
      Quantised result = quantised(step);
      const double over = entropy_bits_per_element(result.matrix.view()) - bits;
      if (std::fabs(over) < kEntropyOfRounding) return result;
      step *= std::exp2(over);
    }
    return std::nullopt;
  }

  // At most kSampledElements, from all over the matrix, but one row at least.
  Matrix some_rows() const {
    const int64_t bytes = matrix_.shape.cols * element_bytes(matrix_.type),
                  every = (matrix_.shape.elements() + kSampledElements - 1) / kSampledElements;
    Matrix rows;
    rows.name = matrix_.name, rows.shape = {0, matrix_.shape.cols}, rows.type = matrix_.type;
    for (int64_t row = 0; row < matrix_.shape.rows; row += every, ++rows.shape.rows)
      rows.elements.insert(rows.elements.end(), matrix_.elements.begin() + row * bytes,
                           matrix_.elements.begin() + (row + 1) * bytes);
    return rows;
  }

  const Matrix& matrix_;
  bool of_rows_;
  Grouping shared_;
  std::vector<double> magnitudes_;
  double dead_zone_;
};

Quantised uniform(const Matrix& matrix, const Parameters& parameters) {
  const Uniform steps(matrix, has_rows(parameters), parameters.has("dead_zone") ? parameters.number("dead_zone") : 0.5);
  return parameters.has("step") ? steps.quantised(parameters.number("step"))
                                : steps.with_entropy(parameters.number("entropy"));
}

void check_uniform(const Parameters& parameters) {
  parameters.exactly_one("step", "entropy");
  const std::string& group = parameters.text("group");
  if (group != "tensor" && group != "row")
    throw DatasetError("The parameter \"group\" of the quantiser uniform is tensor or row, not \"" + group + "\".");
}

}  // namespace

extern const Quantiser kUniformQuantiser{"uniform",
                                         "multiples of a step, whatever the largest weight; made for entropy codes",
                                         kUniformParameters, uniform, check_uniform};

}  // namespace ecmv::datasets
