// Float products (op matmul): the tokens for every layer, and the reference sums in double precision
// (backends/exact_product.h). Layers are not chained.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/exact_product.h"
#include "datasets/scales.h"

namespace ecmv::experiments {

// The nearest number of bf16, ties to even.
float rounded_to_bf16(float number);

struct ReferenceProducts {
  int batch = 0;                           // tokens of each layer; a smaller batch takes the first of them
  std::string refused;                     // why a layer has no product
  std::vector<std::vector<float>> tokens;  // [layers][batch, cols]
  std::vector<backends::ExactProduct> layers;

  // The first `count` tokens of every layer.
  std::vector<std::vector<float>> first_tokens(int count) const;
};

// "" if float products of matrices of these types and shapes are defined, otherwise why not.
std::string why_no_float_product(std::span<const datasets::Matrix> matrices);

// Tokens of N(0, 1), a function of seed, layer, token and column alone, rounded to bf16 for bf16 activations; and the
// exact products, on all threads. Tokens after the first backends::kMaxBatch are these times signs and powers of two.
// `scales`: of every matrix, or none.
ReferenceProducts compute_reference_products(std::span<const datasets::Matrix> matrices, uint64_t seed, int batch,
                                             std::span<const datasets::Scales> scales = {},
                                             backends::Activations activations = backends::Activations::f32);

// The bound of a sum grows with its terms, but the error of one wrong element does not: over 16384 columns the bound
// hides it. So long rows are also multiplied with sparse tokens. Token s of the batch has the numbers of columns s, s +
// batch, ..., about kProbeTerms of them, and zeros elsewhere. A single element that is off by a tenth of the others'
// mean then shows. The batch is 0 where no row is that long.
inline constexpr int64_t kProbeTerms = 1024;
ReferenceProducts compute_probes(std::span<const datasets::Matrix> matrices, uint64_t seed,
                                 std::span<const datasets::Scales> scales = {},
                                 backends::Activations activations = backends::Activations::f32);

// One matrix with tokens below the normal numbers, which a kernel takes as zero only if its rounding says so.
struct SubnormalTokens {
  size_t matrix = 0;           // by number
  ReferenceProducts products;  // of this one alone
};

// Tokens of N(0, 2^-256) for the smallest matrix: a kernel has one arithmetic for all of them.
SubnormalTokens compute_subnormal_tokens(std::span<const datasets::Matrix> matrices, uint64_t seed, int batch,
                                         std::span<const datasets::Scales> scales = {},
                                         backends::Activations activations = backends::Activations::f32);

// Products and probes of the same matrices, each computed at the first request.
class FloatReference {
 public:
  FloatReference(std::shared_ptr<const std::vector<datasets::Matrix>> matrices,
                 std::shared_ptr<const std::vector<datasets::Scales>> scales, uint64_t seed, int batch,
                 backends::Activations activations = backends::Activations::f32)
      : matrices_(std::move(matrices)),
        scales_(std::move(scales)),
        seed_(seed),
        batch_(batch),
        activations_(activations) {}
  // A reference for other matrices of the same shapes, with the same scales and tokens.
  std::shared_ptr<FloatReference> of(std::shared_ptr<const std::vector<datasets::Matrix>> matrices) const {
    return std::make_shared<FloatReference>(std::move(matrices), scales_, seed_, batch_, activations_);
  }
  // The same with other tokens and their products.
  std::shared_ptr<FloatReference> with(ReferenceProducts products) const {
    std::shared_ptr<FloatReference> other = of(matrices_);
    other->products_ = std::move(products);
    return other;
  }
  // A number as these tokens have it.
  float rounded(float number) const {
    return activations_ == backends::Activations::bf16 ? rounded_to_bf16(number) : number;
  }
  const ReferenceProducts& products() {
    if (!products_) products_.emplace(compute_reference_products(*matrices_, seed_, batch_, *scales_, activations_));
    return *products_;
  }
  const ReferenceProducts& probes() {
    return probes_ ? *probes_ : probes_.emplace(compute_probes(*matrices_, seed_, *scales_, activations_));
  }
  const SubnormalTokens& subnormal_tokens() {
    if (!subnormal_) subnormal_.emplace(compute_subnormal_tokens(*matrices_, seed_, batch_, *scales_, activations_));
    return *subnormal_;
  }
  // One for each matrix, or none.
  std::span<const datasets::Scales> scales() const { return *scales_; }

 private:
  std::shared_ptr<const std::vector<datasets::Matrix>> matrices_;
  std::shared_ptr<const std::vector<datasets::Scales>> scales_;
  uint64_t seed_;
  int batch_;
  backends::Activations activations_;
  std::optional<ReferenceProducts> products_, probes_;
  std::optional<SubnormalTokens> subnormal_;
};

}  // namespace ecmv::experiments
