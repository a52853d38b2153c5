// Quantisers `absmax` and `fp8`: the largest magnitude of a tensor, a row or a group becomes the greatest value.
#include <algorithm>
#include <cmath>
#include <string>

#include "datasets/quantisers/tools.h"

namespace ecmv::datasets {
namespace {

constexpr ParameterInfo kAbsmaxParameters[] = {
    {.name = "bits",
     .help = "of an element: integers of +-(2^(bits - 1) - 1), int8 up to 8 bits, then int16",
     .default_value = 8,
     .min = 2,
     .max = 16,
     .is_integer = true},
    {.name = "group",
     .help = "what shares a scale: tensor, row, or 16, 32, 64, 128 or 256 columns of a row",
     .is_text = true,
     .default_text = "row"},
};
constexpr ParameterInfo kFp8Parameters[] = {
    {.name = "group", .help = "what shares a scale: tensor or row", .is_text = true, .default_text = "row"},
};

void expect_group(const Parameters& parameters, std::initializer_list<std::string_view> known) {
  const std::string& group = parameters.text("group");
  if (std::ranges::find(known, group) != known.end()) return;
  std::string list;
  for (const std::string_view one : known) list += (list.empty() ? "" : ", ") + std::string(one);
  throw DatasetError("The parameter \"group\" of " + parameters.owner() + " is one of " + list + ", not \"" + group +
                     "\".");
}

// The largest magnitude of the weights that share a scale, divided by `greatest`.
Scales absmax_scales(const Matrix& matrix, const std::string& group, double greatest, bool upward = false) {
  const Grouping shared = grouping(matrix.shape, group);
  std::vector<double> largest = largest_magnitudes(matrix, shared.group_cols);
  if (group == "tensor") largest = {*std::ranges::max_element(largest)};
  for (double& value : largest) value /= greatest;
  return bf16_scales(shared, largest, upward);
}

template <typename Integer>
Matrix integers(const Matrix& matrix, const Scales& scales, double levels, ElementType type) {
  return scaled_elements(matrix, scales, type, [levels](double steps) {
    return Integer(std::clamp(std::nearbyint(steps), -levels, levels));
  });
}

// The nearest bf16 may lie 2^-9 below the scale that the largest weight needs, which is then clipped: by a quarter of a
// step with 8 bits, but by 64 steps with 16. So scales of wide elements are rounded upward.
Quantised absmax(const Matrix& matrix, const Parameters& parameters) {
  const int bits = int(parameters.integer("bits"));
  const double levels = double((1 << (bits - 1)) - 1);
  Quantised result;
  result.scales = absmax_scales(matrix, parameters.text("group"), levels, bits > 8);
  result.matrix = bits > 8 ? integers<int16_t>(matrix, result.scales, levels, ElementType::i16)
                           : integers<int8_t>(matrix, result.scales, levels, ElementType::i8);
  return result;
}

Quantised fp8(const Matrix& matrix, const Parameters& parameters) {
  Quantised result;
  result.scales = absmax_scales(matrix, parameters.text("group"), kGreatestE4m3);
  result.matrix = scaled_elements(matrix, result.scales, ElementType::f8_e4m3, nearest_f8_e4m3);
  return result;
}

void check_absmax(const Parameters& parameters) {
  expect_group(parameters, {"tensor", "row", "16", "32", "64", "128", "256"});
}
void check_fp8(const Parameters& parameters) { expect_group(parameters, {"tensor", "row"}); }
int64_t absmax_group_cols(const Parameters& parameters) {
  const std::string& group = parameters.text("group");
  return group == "tensor" || group == "row" ? 0 : std::stoll(group);
}

}  // namespace

extern const Quantiser kAbsmaxQuantiser{
    "absmax",          "integers; the largest magnitude that shares a scale becomes the greatest",
    kAbsmaxParameters, absmax,
    check_absmax,      absmax_group_cols};
extern const Quantiser kFp8Quantiser{"fp8", "e4m3 floats; the largest magnitude that shares a scale becomes 448",
                                     kFp8Parameters, fp8, check_fp8};

}  // namespace ecmv::datasets
