// Source `gaussian_floats`: N(0, sigma^2) as floats of any type, for quantisers, whose theory is about this
// distribution, and with a small sigma for subnormal numbers.
#include <array>
#include <bit>
#include <cstring>

#include "datasets/chunks.h"
#include "datasets/numbers.h"
#include "datasets/parameters.h"
#include "datasets/sources/normal_draws.h"
#include "datasets/sources/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr int64_t kPairsOfChunk = 1 << 17;

constexpr ParameterInfo kGaussianFloatsParameters[] = {
    {.name = "sigma", .help = "standard deviation", .default_value = 0.02, .min = 1e-310, .max = 1e6},
    {.name = "type",
     .help = "of the elements: bf16, f16, f32, f64, f8_e5m2 or f8_e4m3; bf16 if left out",
     .is_text = true},
};

constexpr std::array kTypes = {ElementType::bf16, ElementType::f16,     ElementType::f32,
                               ElementType::f64,  ElementType::f8_e5m2, ElementType::f8_e4m3};

// The bits of the nearest number of the type.
uint64_t nearest(double value, ElementType type) {
  switch (type) {
    case ElementType::f16: return nearest_f16(value);
    case ElementType::f32: return std::bit_cast<uint32_t>(float(value));
    case ElementType::f64: return std::bit_cast<uint64_t>(value);
    case ElementType::f8_e5m2: return nearest_f8_e5m2(value);
    case ElementType::f8_e4m3: return nearest_f8_e4m3(value);
    default: return nearest_bf16(value);
  }
}

// The pair i makes elements 2i and 2i + 1.
Matrix draw(Shape shape, uint64_t seed, int layer, double sigma, ElementType type) {
  Matrix matrix;
  matrix.name = "layer_" + std::to_string(layer);
  matrix.shape = shape;
  matrix.type = type;
  const int64_t width = element_bytes(type), count = shape.elements(), pairs = (count + 1) / 2;
  matrix.elements.resize(size_t(count * width));
  for_each_chunk((pairs + kPairsOfChunk - 1) / kPairsOfChunk, 0, [&](int64_t chunk) {
    for (int64_t pair = chunk * kPairsOfChunk; pair < std::min(pairs, (chunk + 1) * kPairsOfChunk); ++pair) {
      const auto normal = normal_pair(random_words(seed, uint32_t(layer), DrawPurpose::weights, uint64_t(pair)));
      for (int64_t i = 2 * pair; i < std::min(count, 2 * pair + 2); ++i) {
        const uint64_t bits = nearest(sigma * normal[size_t(i % 2)], type);
        std::memcpy(matrix.elements.data() + i * width, &bits, size_t(width));
      }
    }
  });
  matrix.content_hash = content_hash(matrix.view());
  return matrix;
}

Dataset load_gaussian_floats(const SourceRequest& request);

}  // namespace

extern const DataSource kGaussianFloatsSource{"gaussian_floats",
                                              "N(0, sigma^2) as bf16 or another type of floats",
                                              true,
                                              kGaussianFloatsParameters,
                                              load_gaussian_floats,
                                              8};

namespace {

Dataset load_gaussian_floats(const SourceRequest& request) {
  const Parameters parameters(kGaussianFloatsSource, request);
  check_request(kGaussianFloatsSource, request);
  const std::string& name = parameters.text("type");
  const auto* const type = std::ranges::find_if(
      kTypes, [&](ElementType one) { return element_type_name(one) == (name.empty() ? "bf16" : name); });
  if (type == kTypes.end())
    throw DatasetError(
        "The source gaussian_floats makes elements of the type bf16, f16, f32, f64, f8_e5m2 or f8_e4m3, not \"" + name +
        "\".");
  Dataset dataset;
  for (int layer = 0; layer < request.layers; ++layer)
    dataset.layers.push_back(draw(request.shape, request.seed, layer, parameters.number("sigma"), *type));
  dataset.initial_vector = draw_initial_vector(request.seed, request.shape.cols);
  return dataset;
}

}  // namespace
}  // namespace ecmv::datasets
