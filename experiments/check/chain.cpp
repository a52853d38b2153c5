// See chain.h. Layers of unchained datasets are independent, but one loop serves both.
#include "experiments/check/chain.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>

#include "backends/backend.h"
#include "backends/cpu/products/dense_matvec.h"
#include "backends/cpu/team.h"

namespace ecmv::experiments {
namespace {

// 128 * 128 * 131072 = 2^31: one column more could overflow.
constexpr int64_t kMaxCols = 131072 - 1;

std::vector<int8_t> repeat(const std::vector<int8_t>& vector, int64_t length) {
  std::vector<int8_t> out(length);
  for (int64_t i = 0; i < length && !vector.empty(); ++i) out[i] = vector[i % static_cast<int64_t>(vector.size())];
  return out;
}

// Kernels may read zeros past the vector's end.
std::vector<int8_t> padded(const std::vector<int8_t>& vector) {
  std::vector<int8_t> out = vector;
  out.resize(vector.size() + backends::kVectorPaddingBytes);
  return out;
}

std::vector<int8_t> extremes(int64_t length) {
  constexpr int64_t kAlike = 4;
  std::vector<int8_t> vector(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) vector[i] = i + 1 == length || i / kAlike % 2 == 0 ? -128 : 127;
  return vector;
}

std::vector<int8_t> scattered_extremes(size_t layer, int64_t length) {
  std::mt19937_64 random(layer);  // its numbers are the same on all platforms
  std::vector<int8_t> vector(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    const uint64_t number = random();
    vector[i] = static_cast<int8_t>(i + 1 < length && number >> 32 & 1 ? number : number >> 33 & 1 ? 127 : 128);
  }
  return vector;
}

float natural_scale(std::span<const int32_t> y) {
  int64_t largest = 0;
  for (const int32_t value : y) largest = std::max<int64_t>(largest, std::llabs(value));
  return largest == 0 ? 1.0f : 127.0f / static_cast<float>(largest);
}

// Near the natural scale: one with which a sum times the scale is k + 1/2 as float32, and rounds to an even k, while
// the product is more than that. Rounded once, it gives k + 1.
float scale_of_double_rounding(std::span<const int32_t> y) {
  const float natural = natural_scale(y);
  for (const int32_t sum : y)
    for (float tie = 2.5f; tie < 100 && sum != 0; tie += 2) {
      const float magnitude = std::abs(static_cast<float>(sum)), scale = tie / magnitude;
      if (scale < natural / 4 || scale > natural || magnitude * scale != tie) continue;
      if (static_cast<double>(magnitude) * static_cast<double>(scale) > static_cast<double>(tie)) return scale;
    }
  return natural;
}

// How a chain begins, and goes on: the input of a layer that has one, and the scale of its sums.
struct Beginnings {
  std::function<std::vector<int8_t>(size_t layer, int64_t cols)> input;
  std::function<float(size_t layer, std::span<const int32_t> sums)> scale;
};

ReferenceChain compute_chain(std::span<const datasets::Matrix> layers, const Beginnings& with) {
  ReferenceChain chain;
  const backends::cpu::Team team(backends::cpu::Team::available_threads());
  for (size_t i = 0; i + 1 < layers.size(); ++i)
    if (layers[i].shape.rows != layers[i + 1].shape.cols) chain.chained = false;
  for (size_t i = 0; i < layers.size(); ++i) {
    const datasets::Shape shape = layers[i].shape;
    if (shape.cols > kMaxCols)
      throw std::invalid_argument("A product over " + std::to_string(shape.cols) +
                                  " columns could overflow int32; at most " + std::to_string(kMaxCols) +
                                  " columns are multiplied.");
    if (i == 0 || !chain.chained) chain.inputs.push_back(with.input(i, shape.cols));
    const std::vector<int8_t> x = padded(i == 0 || !chain.chained ? chain.inputs.back() : chain.outputs.back());
    std::vector<int32_t> y(shape.rows);
    team.run([&](int thread, int threads) {
      const int64_t begin = shape.rows * thread / threads, end = shape.rows * (thread + 1) / threads;
      backends::cpu::dense_matvec_scalar(layers[i].view().i8().data() + begin * shape.cols, end - begin, shape.cols,
                                         x.data(), y.data() + begin);
    });
    chain.scales.push_back(with.scale(i, y));
    std::vector<int8_t> v(shape.rows);
    for (int64_t r = 0; r < shape.rows; ++r) v[r] = backends::requantise(y[r], chain.scales.back());
    chain.accumulators.push_back(std::move(y));
    chain.outputs.push_back(std::move(v));
  }
  return chain;
}

}  // namespace

std::string why_no_product(std::span<const datasets::Matrix> matrices) {
  for (const datasets::Matrix& matrix : matrices)
    if (matrix.type != datasets::ElementType::i8)
      return "The op matvec takes int8 matrices (op matmul takes others); the elements of " + matrix.name + " are " +
             std::string(datasets::element_type_name(matrix.type)) + ".";
  return {};
}

// Integers with a scale for each row or group are no numbers that an int8 chain could continue with. One scale of the
// tensor is divided out by requantisation.
std::string why_no_product(const datasets::Dataset& dataset) {
  if (std::string reason = why_no_product(dataset.layers); !reason.empty()) return reason;
  for (const datasets::Scales& scales : dataset.scales)
    if (scales.rows > 1 || scales.groups > 1 || scales.has_minimums)
      return "The op matvec multiplies integers without scales; the rows or groups of these have scales (op matmul "
             "applies them).";
  return {};
}

ReferenceChain compute_reference_chain(const datasets::Dataset& dataset) {
  ReferenceChain chain =
      compute_chain(dataset.layers, {[&](size_t, int64_t cols) { return repeat(dataset.initial_vector, cols); },
                                     [](size_t, std::span<const int32_t> sums) { return natural_scale(sums); }});
  const auto scale = [&](size_t layer, std::span<const int32_t> sums) {
    return layer % 2 == 1 ? scale_of_double_rounding(sums) : std::exp2(std::ceil(std::log2(chain.scales[layer])));
  };
  auto all_alike = std::make_shared<ReferenceChain>(
      compute_chain(dataset.layers, {[](size_t, int64_t cols) { return extremes(cols); }, scale}));
  all_alike->extremes = std::make_shared<const ReferenceChain>(compute_chain(
      dataset.layers,
      {scattered_extremes, [&](size_t layer, std::span<const int32_t>) { return all_alike->scales[layer]; }}));
  chain.extremes = std::move(all_alike);
  return chain;
}

ReferenceChain continue_chain(const ReferenceChain& chain, std::span<const datasets::Matrix> layers,
                              const std::vector<int8_t>& initial_vector) {
  return compute_chain(layers, {[&](size_t, int64_t cols) { return repeat(initial_vector, cols); },
                                [&](size_t layer, std::span<const int32_t>) { return chain.scales[layer]; }});
}

}  // namespace ecmv::experiments
