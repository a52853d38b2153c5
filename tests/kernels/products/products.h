// A float product of a matrix by one kernel, held to the bound around sums in double precision
// (backends/exact_product.h), and matrices and settings for that.
#pragma once

#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/exact_product.h"
#include "tests/kernels/places.h"
#include "tests/kernels/products/group_scales.h"
#include "tests/test_matrices.h"

namespace ecmv::tests {

inline std::vector<float> draw_tokens(int64_t cols, int batch) {
  Random random{17};
  std::vector<float> tokens;
  for (int64_t i = 0; i < cols * batch; ++i) tokens.push_back(static_cast<float>(random.normal()));
  return tokens;
}

// Tokens and exact sums for the largest batch; smaller ones are the first tokens of it.
struct TokenProducts {
  std::vector<float> tokens;
  backends::ExactProduct exact;
};
// A matrix with its products for both kinds of activations.
struct Product {
  datasets::Matrix matrix;
  TokenProducts f32, bf16;
  const TokenProducts& of(backends::Activations activations) const {
    return activations == backends::Activations::bf16 ? bf16 : f32;
  }
};
inline Product multiply(datasets::Matrix matrix, int tokens = backends::kMaxBatch) {
  Product product{std::move(matrix), {}, {}};
  product.f32.tokens = draw_tokens(product.matrix.shape.cols, tokens);
  for (const float token : product.f32.tokens)
    product.bf16.tokens.push_back(std::bit_cast<float>(uint32_t{datasets::nearest_bf16(token)} << 16));
  for (TokenProducts* of : {&product.f32, &product.bf16})
    of->exact = backends::exact_product(product.matrix.view(), of->tokens, tokens);
  return product;
}

// Runs one kernel as a fused or unfused product of one batch; false if it refuses. Unfused products take any
// activations. Scales are only for kernels that take them, by default those of scales_for().
inline bool product_is_right(backends::Device& device, const backends::Kernel& kernel, const backends::Policy& policy,
                             const backends::UploadedMatrix& uploaded, const Product& product, int batch,
                             std::optional<backends::Activations> activations = {},
                             const datasets::Scales* chosen_scales = nullptr) {
  device.select();
  const std::string refused = kernel.refuses(uploaded.view(), device.info(), policy);
  if (!refused.empty()) {
    CHECK(refused.size() > 20);
    return false;
  }
  if (!activations) activations = kernel.activations;
  backends::PassPlan plan;
  plan.kernel = &kernel;
  plan.op = backends::Op::matmul;
  plan.policy = &policy;
  plan.layers = {&uploaded};
  plan.chained = false;
  plan.batch = batch;
  plan.activations = *activations;
  const TokenProducts& of_kind = product.of(*activations);
  plan.tokens = {{of_kind.tokens.begin(), of_kind.tokens.begin() + batch * product.matrix.shape.cols}};
  const datasets::Scales own_scales = scales_for(kernel, product.matrix.shape);
  const datasets::Scales& scales = chosen_scales != nullptr ? *chosen_scales : own_scales;
  plan.weight_scales = {&scales};
  const backends::ExactProduct scaled =
      scales.empty() ? backends::ExactProduct()
                     : backends::exact_product(product.matrix.view(), plan.tokens[0], batch, &scales);
  const auto pass = backends::prepare(device, plan);
  pass->poison_outputs(0);
  pass->run();
  const auto got = pass->products(0);
  CHECK(static_cast<int64_t>(got.size()) == batch * product.matrix.shape.rows);
  CHECK(backends::check_product(got, scales.empty() ? of_kind.exact : scaled, pass->rounding(0)).violation == "");
  CHECK(pass->broken_guards() == "");
  return true;
}

// Weights of one of the types that float32 holds.
inline datasets::Matrix weights(datasets::ElementType type, datasets::Shape shape) {
  using enum datasets::ElementType;
  Random random{3};
  return make_typed_matrix("weights_" + std::string(element_type_name(type)), type, shape, [&](int64_t) -> uint64_t {
    const double weight = random.normal();
    switch (type) {
      case bf16: return datasets::nearest_bf16(0.02 * weight);
      case f32: return std::bit_cast<uint32_t>(static_cast<float>(0.02 * weight));
      case f16: return (random.next() & 0x83FF) | (random.next() % 20) << 10;  // subnormal ones among them
      case f8_e5m2: return (random.next() & 0x83) | (random.next() % 20) << 2;
      case f8_e4m3: return random.next() % 2 << 7 | random.next() % 0x7F;
      case u8:
      case u16: return static_cast<uint64_t>(std::fabs(60 * weight));
      default: return static_cast<uint64_t>(static_cast<int64_t>(std::nearbyint(20 * weight)));
    }
  });
}

// quad_huffman with that layout, and cells that all of its kernels of int8 elements take.
inline backends::Settings quads(const codecs::CodecEntry& entry, const char* layout, int symbol_cols) {
  backends::Settings settings = codecs::default_settings(*entry.codec);
  settings.set("symbol_cols", int64_t{symbol_cols});
  settings.set("layout", std::string(layout));
  settings.set("cells", std::string("folded"));
  settings.set("raw_bits", int64_t{3});
  settings.set("fallback", std::string("none"));
  return settings;
}

// quad_huffman of bf16 or f8 with symbols of eight exponents.
inline backends::Settings float_eights(const codecs::CodecEntry& entry, const char* layout) {
  backends::Settings settings = codecs::default_settings(*entry.codec);
  settings.set("symbol_cols", int64_t{8});
  settings.set("layout", std::string(layout));
  settings.set("fallback", std::string("none"));
  return settings;
}

}  // namespace ecmv::tests
