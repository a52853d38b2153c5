// See chain.h. Layers of unchained datasets are independent, but one loop serves both.
#include "experiments/check/chain.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
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

std::vector<int8_t> extremes(size_t length) {
  constexpr size_t kAlike = 4;
  std::vector<int8_t> vector(length);
  for (size_t i = 0; i < length; ++i) vector[i] = i + 1 == length || i / kAlike % 2 == 0 ? -128 : 127;
  return vector;
}

// Chooses the scales if there are none.
ReferenceChain compute_chain(std::span<const datasets::Matrix> layers, const std::vector<int8_t>& initial_vector,
                             const std::vector<float>& scales) {
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
    if (i == 0 || !chain.chained) chain.inputs.push_back(repeat(initial_vector, shape.cols));
    const std::vector<int8_t> x = padded(i == 0 || !chain.chained ? chain.inputs.back() : chain.outputs.back());
    std::vector<int32_t> y(shape.rows);
    team.run([&](int thread, int threads) {
      const int64_t begin = shape.rows * thread / threads, end = shape.rows * (thread + 1) / threads;
      backends::cpu::dense_matvec_scalar(layers[i].view().i8().data() + begin * shape.cols, end - begin, shape.cols,
                                         x.data(), y.data() + begin);
    });
    int64_t largest = 0;
    for (int32_t value : y) largest = std::max<int64_t>(largest, std::llabs(value));
    chain.scales.push_back(!scales.empty() ? scales[i] : largest == 0 ? 1.0f : 127.0f / static_cast<float>(largest));
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
  ReferenceChain chain = compute_chain(dataset.layers, dataset.initial_vector, {});
  std::vector<float> scales;
  for (const float scale : chain.scales) scales.push_back(std::exp2(std::ceil(std::log2(scale))));
  chain.extremes = std::make_shared<const ReferenceChain>(
      compute_chain(dataset.layers, extremes(dataset.initial_vector.size()), scales));
  return chain;
}

ReferenceChain continue_chain(const ReferenceChain& chain, std::span<const datasets::Matrix> layers,
                              const std::vector<int8_t>& initial_vector) {
  return compute_chain(layers, initial_vector, chain.scales);
}

}  // namespace ecmv::experiments
