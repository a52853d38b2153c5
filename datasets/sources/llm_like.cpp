// Source `llm_like`: bf16 matrices with the published statistics of a large language model's weights (Liguori 2024,
// tables 1 and 2, of Llama2 7B): 31 exponents with an entropy of 2.577 bits, sizes under gzip and bzip2, sizes after
// linear quantisation. It is fitted to averages and says nothing about rows, columns or contexts of the real model.
//   1. sigma_m is log-uniform in [0.01, 0.04]; each row is scaled by exp(0.1685 z), which gives the tail that the
//      exponents' entropy asks for (a plain Gaussian has 2.544 bits).
//   2. Outliers go up to r_m sigma_m, log2 r_m = log2 27.2 + 0.6 z_m: the largest weight decides how much quantisation
//      leaves. z_m comes in pairs of opposite sign, spread evenly: drawn plainly, 16 matrices moved every size of table
//      2 by 0.04 bits.
//   3. Weights are rounded to bf16.
//   4. Exponents below the window of 31 are raised to its lowest, and each missing one is given to one element.
#include "datasets/sources/llm_like.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <string>

#include "datasets/chunks.h"
#include "datasets/numbers.h"
#include "datasets/parameters.h"
#include "datasets/sources/distributions.h"
#include "datasets/sources/normal_draws.h"
#include "datasets/sources/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kRowSpread = 0.1685, kMaximumSpread = 0.6;
constexpr double kLog2Maximum = 0x1.30fe8572e5294p+2,
                 kLog2Six = 0x1.4ae00d1cfdeb4p+1;  // log2 27.2 and log2 6
constexpr double kGoldenRatio = 0x1.3c6ef372fe95p-1;
constexpr int kWindow = 31;              // exponents
constexpr int64_t kFewestToFill = 4096;  // elements, for missing exponents to be given away
constexpr int64_t kChunkPairs = 1 << 17;

constexpr ParameterInfo kLlmLikeParameters[] = {
    {.name = "type",
     .help = "of the elements: bf16, or f8_e4m3 for matrices divided by their largest weight / 448; bf16 if left out",
     .is_text = true}};

// Like checkpoints of such weights: a scale a matrix, its largest weight the greatest e4m3. The result for each of the
// 65536 numbers of bf16 is computed once (computing it for each weight took longer than drawing them).
Matrix to_f8(const Matrix& weights) {
  const auto count = static_cast<size_t>(weights.shape.elements());
  std::vector<uint16_t> numbers(count);
  std::memcpy(numbers.data(), weights.elements.data(), weights.elements.size());
  uint16_t largest = 0;
  for (const uint16_t number : numbers) largest = std::max<uint16_t>(largest, number & 0x7FFF);
  const double scale = 448 / bf16_value(largest);
  std::vector<std::byte> rounded(65536);
  for (size_t bits = 0; bits < rounded.size(); ++bits)
    rounded[bits] = static_cast<std::byte>(nearest_f8_e4m3(bf16_value(static_cast<uint16_t>(bits)) * scale));
  Matrix matrix = weights;
  matrix.type = ElementType::f8_e4m3;
  matrix.elements.resize(count);
  std::transform(numbers.begin(), numbers.end(), matrix.elements.begin(), [&](uint16_t bits) { return rounded[bits]; });
  matrix.content_hash = content_hash(matrix.view());
  return matrix;
}

int exponent_of(uint16_t weight) { return weight >> 7 & 255; }

// z_m comes in pairs, at places in (0, 1/2) by the golden ratio, so any even number of matrices is spread evenly.
double matrix_quantile(int layer) {
  const double place = 0.5 + (layer / 2) * kGoldenRatio;
  const double half = 0.5 * (place - std::floor(place));
  return normal_quantile(layer % 2 == 0 ? half : 1 - half);
}

class Weights {
 public:
  Weights(Shape shape, uint64_t seed, int layer)
      : shape_(shape), seed_(seed), layer_(uint32_t(layer)), bits_(size_t(shape.elements())) {
    const double place = uniform_of(random_words(seed, 0, DrawPurpose::matrix_scales, 0)[0]) + layer * kGoldenRatio;
    sigma_ = 0.01 * exact_exp2(2 * (place - std::floor(place)));
    draw();
    place_outliers(matrix_quantile(layer));
    close_window();
  }

  Matrix matrix() const {
    Matrix matrix;
    matrix.name = "layer_" + std::to_string(layer_);
    matrix.shape = shape_;
    matrix.type = ElementType::bf16;
    matrix.elements.resize(2 * bits_.size());
    std::memcpy(matrix.elements.data(), bits_.data(), matrix.elements.size());
    matrix.content_hash = content_hash(matrix.view());
    return matrix;
  }

 private:
  uint64_t count() const { return bits_.size(); }
  std::array<uint64_t, 2> words(DrawPurpose purpose, uint64_t index) const {
    return random_words(seed_, layer_, purpose, index);
  }

  // The pair i makes elements 2i and 2i + 1.
  void draw() {
    std::vector<double> scale(size_t(shape_.rows));
    for (size_t row = 0; row < scale.size(); ++row)
      scale[row] =
          sigma_ * exact_exp2(kRowSpread * kLog2E * normal_pair(words(DrawPurpose::row_scales, row / 2))[row % 2]);
    const int64_t pairs = int64_t(count() + 1) / 2;
    for_each_chunk((pairs + kChunkPairs - 1) / kChunkPairs, 0, [&](int64_t chunk) {
      for (int64_t pair = chunk * kChunkPairs; pair < std::min(pairs, (chunk + 1) * kChunkPairs); ++pair) {
        const auto normal = normal_pair(words(DrawPurpose::weights, uint64_t(pair)));
        for (size_t i = size_t(2 * pair); i < std::min<size_t>(count(), size_t(2 * pair) + 2); ++i)
          bits_[i] = nearest_bf16(normal[i % 2] * scale[i / size_t(shape_.cols)]);
      }
    });
  }

  void place_outliers(double z) {
    const double log2_ratio = std::clamp(kLog2Maximum + kMaximumSpread * z, 3.3, 6.5);
    const uint64_t outliers = std::min<uint64_t>(count(), std::max<uint64_t>(8, uint64_t(2e-6 * double(count()))));
    for (uint64_t i = outliers; i-- > 0;) {  // the largest, number 0, last
      const auto random = words(DrawPurpose::outliers, i);
      const auto share = i == 0 ? 1.0 : uniform_of(words(DrawPurpose::outliers, i + (uint64_t{1} << 32))[0]);
      const double magnitude = sigma_ * exact_exp2(kLog2Six + share * (log2_ratio - kLog2Six));
      const size_t position = size_t(random[0] % count());
      bits_[position] = nearest_bf16(random[1] & 1 ? -magnitude : magnitude);
      if (i == 0) largest_ = position;
    }
  }

  void close_window() {
    const int top = exponent_of(bits_[largest_]), bottom = std::max(1, top - (kWindow - 1));
    std::array<int64_t, 256> counts{};
    for (uint16_t& weight : bits_) {
      if (exponent_of(weight) < bottom) weight = uint16_t((weight & 0x807F) | bottom << 7);
      ++counts[size_t(exponent_of(weight))];
    }
    if (int64_t(count()) < kFewestToFill) return;
    uint64_t draw = 0;
    for (int exponent = bottom; exponent <= top; ++exponent) {
      while (counts[size_t(exponent)] == 0) {
        uint16_t& weight = bits_[size_t(words(DrawPurpose::exponents, draw++)[0] % count())];
        if (counts[size_t(exponent_of(weight))] < 2) continue;
        --counts[size_t(exponent_of(weight))];
        ++counts[size_t(exponent)];
        weight = uint16_t((weight & 0x807F) | exponent << 7);
      }
    }
  }

  Shape shape_;
  uint64_t seed_;
  uint32_t layer_;
  double sigma_ = 0;
  size_t largest_ = 0;
  std::vector<uint16_t> bits_;
};

Dataset load_llm_like(const SourceRequest& request);

}  // namespace

extern const DataSource kLlmLikeSource{"llm_like",    "bf16 weights with the statistics of a large language model's",
                                       true,          kLlmLikeParameters,
                                       load_llm_like, 2};

namespace {

Dataset load_llm_like(const SourceRequest& request) {
  const Parameters parameters(kLlmLikeSource, request);
  check_request(kLlmLikeSource, request);
  const std::string& type = parameters.text("type");
  if (type != "" && type != "bf16" && type != "f8_e4m3")
    throw DatasetError("The source llm_like makes weights of the type bf16 or f8_e4m3, not \"" + type + "\".");
  Dataset dataset;
  try {
    for (int layer = 0; layer < request.layers; ++layer) {
      Matrix matrix = llm_like_weights(request.shape, request.seed, layer);
      if (type == "f8_e4m3") matrix = to_f8(matrix);
      dataset.layers.push_back(std::move(matrix));
    }
    dataset.initial_vector = draw_initial_vector(request.seed, request.shape.cols);
  } catch (const std::bad_alloc&) {
    throw DatasetError("The source llm_like could not get the memory for " + std::to_string(request.layers) +
                       " layers of " + std::to_string(request.shape.elements()) + " weights.");
  } catch (const std::length_error&) {
    throw DatasetError("The source llm_like cannot hold a matrix of " + std::to_string(request.shape.elements()) +
                       " weights in memory.");
  }
  return dataset;
}

}  // namespace
Matrix llm_like_weights(Shape shape, uint64_t seed, int layer) { return Weights(shape, seed, layer).matrix(); }

}  // namespace ecmv::datasets
