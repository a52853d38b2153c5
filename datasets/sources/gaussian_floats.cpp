// Source `gaussian_floats`: N(0, sigma^2) as bf16 or float32, for quantisers, whose theory is about this distribution.
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
    {.name = "sigma", .help = "standard deviation", .default_value = 0.02, .min = 1e-6, .max = 1e6},
    {.name = "type", .help = "of the elements: bf16 or f32; bf16 if left out", .is_text = true},
};

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
        const double value = sigma * normal[size_t(i % 2)];
        std::byte* const out = matrix.elements.data() + i * width;
        if (type == ElementType::bf16) {
          const uint16_t bits = nearest_bf16(value);
          std::memcpy(out, &bits, sizeof(bits));
        } else {
          const auto number = float(value);
          std::memcpy(out, &number, sizeof(number));
        }
      }
    }
  });
  matrix.content_hash = content_hash(matrix.view());
  return matrix;
}

Dataset load_gaussian_floats(const SourceRequest& request);

}  // namespace

extern const DataSource kGaussianFloatsSource{
    "gaussian_floats", "N(0, sigma^2) as bf16 or float32", true, kGaussianFloatsParameters, load_gaussian_floats, 4};

namespace {

Dataset load_gaussian_floats(const SourceRequest& request) {
  const Parameters parameters(kGaussianFloatsSource, request);
  check_request(kGaussianFloatsSource, request);
  const std::string& type = parameters.text("type");
  if (type != "" && type != "bf16" && type != "f32")
    throw DatasetError("The source gaussian_floats makes elements of the type bf16 or f32, not \"" + type + "\".");
  Dataset dataset;
  for (int layer = 0; layer < request.layers; ++layer)
    dataset.layers.push_back(draw(request.shape, request.seed, layer, parameters.number("sigma"),
                                  type == "f32" ? ElementType::f32 : ElementType::bf16));
  dataset.initial_vector = draw_initial_vector(request.seed, request.shape.cols);
  return dataset;
}

}  // namespace
}  // namespace ecmv::datasets
