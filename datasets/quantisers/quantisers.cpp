// The list of quantisers, and the code that they share. A new one is declared and listed here; nothing else knows it.
#include "datasets/quantisers/quantisers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <sstream>

#include "datasets/quantisers/tools.h"

namespace ecmv::datasets {

extern const Quantiser kAbsmaxQuantiser, kFp8Quantiser, kNvfp4Quantiser, kMxfp4Quantiser, kUniformQuantiser;

namespace {

constexpr double kLargestWeight = 0x1p100;

const Quantiser& expect_quantiser(const std::string& id) {
  if (const Quantiser* quantiser = find_quantiser(id)) return *quantiser;
  std::string known;
  for (const Quantiser& quantiser : all_quantisers()) known += (known.empty() ? "" : ", ") + std::string(quantiser.id);
  throw DatasetError("There is no quantiser \"" + id + "\"; there are " + known + ".");
}

Parameters parameters_of(const Quantiser& quantiser, const QuantiserChoice& choice) {
  return {"the quantiser " + choice.id, quantiser.parameters, choice.numbers, choice.texts};
}

void expect_weights(const Matrix& matrix) {
  expect_floats(matrix);
  const std::string who = "The matrix \"" + matrix.name + "\"";
  if (matrix.shape.elements() == 0) throw DatasetError(who + " has no elements and cannot be quantised.");
  std::atomic<bool> infinite = false, large = false;
  for_each_row(matrix, [&](int64_t, std::span<const double> weights) {
    for (const double weight : weights) {
      if (!std::isfinite(weight)) infinite = true;
      if (std::fabs(weight) > kLargestWeight) large = true;
    }
  });
  if (infinite) throw DatasetError(who + " holds NaN or infinities and cannot be quantised.");
  if (large) throw DatasetError(who + " holds weights beyond 2^100 and is not quantised.");
}

}  // namespace

std::span<const Quantiser> all_quantisers() {
  static const std::array list{kAbsmaxQuantiser, kFp8Quantiser, kNvfp4Quantiser, kMxfp4Quantiser, kUniformQuantiser};
  return list;
}

const Quantiser* find_quantiser(std::string_view id) {
  const auto quantisers = all_quantisers();
  const auto found = std::ranges::find(quantisers, id, &Quantiser::id);
  return found == quantisers.end() ? nullptr : &*found;
}

std::string QuantiserChoice::name() const {
  std::string list;
  const auto add = [&](std::string_view parameter, const std::string& value) {
    list += (list.empty() ? "" : ",") + std::string(parameter) + "=" + value;
  };
  const Quantiser& quantiser = expect_quantiser(id);
  const Parameters values = parameters_of(quantiser, *this);
  for (const ParameterInfo& info : quantiser.parameters) {
    if (!values.has(info.name)) continue;
    std::ostringstream number;
    if (!info.is_text) number << values.number(info.name);
    add(info.name, info.is_text ? values.text(info.name) : number.str());
  }
  return list.empty() ? id : id + "[" + list + "]";
}

void check_quantiser(const QuantiserChoice& choice) {
  const Quantiser& quantiser = expect_quantiser(choice.id);
  const Parameters parameters = parameters_of(quantiser, choice);
  if (quantiser.check != nullptr) quantiser.check(parameters);
}

void expect_floats(const Matrix& matrix) {
  if (is_float(matrix.type)) return;
  throw DatasetError("The matrix \"" + matrix.name + "\" has elements of type " +
                     std::string(element_type_name(matrix.type)) + "; only floats are quantised.");
}

int64_t group_cols(const QuantiserChoice& choice) {
  if (choice.id.empty()) return 0;
  const Quantiser& quantiser = expect_quantiser(choice.id);
  return quantiser.group_cols == nullptr ? 0 : quantiser.group_cols(parameters_of(quantiser, choice));
}

Dataset quantise(Dataset floats, const QuantiserChoice& choice) {
  check_quantiser(choice);
  const Quantiser& quantiser = expect_quantiser(choice.id);
  const Parameters parameters = parameters_of(quantiser, choice);
  Dataset dataset;
  dataset.initial_vector = std::move(floats.initial_vector);
  dataset.sources = std::move(floats.layers);
  for (const Matrix& source : dataset.sources) {
    expect_weights(source);
    Quantised quantised = quantiser.quantise(source, parameters);
    dataset.layers.push_back(std::move(quantised.matrix));
    dataset.scales.push_back(std::move(quantised.scales));
  }
  return dataset;
}

std::vector<double> largest_magnitudes(const Matrix& matrix, int64_t group_cols) {
  const int64_t groups = (matrix.shape.cols + group_cols - 1) / group_cols;
  std::vector<double> largest(size_t(matrix.shape.rows * groups));
  for_each_row(matrix, [&](int64_t row, std::span<const double> weights) {
    for (size_t c = 0; c < weights.size(); ++c) {
      double& of_group = largest[size_t(row * groups) + c / size_t(group_cols)];
      of_group = std::max(of_group, std::fabs(weights[c]));
    }
  });
  return largest;
}

Grouping grouping(const Shape& shape, const std::string& group) {
  if (group == "tensor") return {1, 1, shape.cols};
  if (group == "row") return {shape.rows, 1, shape.cols};
  const int64_t cols = std::stoll(group);
  return {shape.rows, (shape.cols + cols - 1) / cols, cols};
}

Scales bf16_scales(const Grouping& grouping, std::span<const double> values, bool upward) {
  Scales scales;
  scales.rows = grouping.rows;
  scales.groups = grouping.groups;
  scales.group_cols = grouping.group_cols;
  for (const double value : values) {
    uint16_t bits = nearest_bf16(value == 0 ? 1 : std::max(value, kSmallestScale));
    if (upward && bf16_value(bits) < value) ++bits;
    scales.stored.push_back(std::byte(bits & 255));
    scales.stored.push_back(std::byte(bits >> 8));
  }
  return scales;
}

}  // namespace ecmv::datasets
