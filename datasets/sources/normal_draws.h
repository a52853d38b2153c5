// Continuous normal variates that are equal on every platform: Box-Muller with own logarithm, sine and cosine, made of
// basic IEEE operations and square roots alone. Sources of floats use them; int8 sources draw from tables instead.
#pragma once

#include <array>
#include <cstdint>

namespace ecmv::datasets {

// 128 random bits for each (seed, layer, purpose, index), by Philox4x32-10. Purposes below 4 belong to the
// table sampler.
enum class DrawPurpose : uint32_t {
  weights = 4,
  row_scales = 5,
  matrix_scales = 6,
  outliers = 7,
  exponents = 8,
  tokens = 9  // of float products, which experiments draw
};
std::array<uint64_t, 2> random_words(uint64_t seed, uint32_t layer, DrawPurpose purpose, uint64_t index);

// A number of [0, 1) with 53 bits.
double uniform_of(uint64_t word);

// Two independent variates of N(0, 1) from 128 random bits.
std::array<double, 2> normal_pair(const std::array<uint64_t, 2>& words);

}  // namespace ecmv::datasets
