// The chain that every kernel has to reproduce, computed once for a dataset by plain loops over the uncompressed
// matrices.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datasets/source.h"

namespace ecmv::experiments {

// v_i = requantise(W_i v_{i-1}, scale_i) with scale_i = 127 / max|W_i v_{i-1}| (1 where that maximum is 0), so every
// v_i fits an int8. Matrices that do not fit together (rectangular ones) are not chained: each gets its own input.
struct ReferenceChain {
  bool chained = true;
  std::vector<std::vector<int8_t>> inputs;         // one (chained) or one a layer, each [cols]
  std::vector<float> scales;                       // [layers]
  std::vector<std::vector<int32_t>> accumulators;  // [layers][rows]
  std::vector<std::vector<int8_t>> outputs;        // [layers][rows]
  // What random numbers hardly ever show: vectors of -128 and 127, neighbours alike, -128 in the last column. The
  // scales of every second layer are powers of two, so that some results are ties and some saturate; with those of the
  // others a product in float32 is a tie, and in more digits none. The extremes of this chain, with the same scales:
  // vectors of which half are -128 or 127, at random, the last number among them.
  std::shared_ptr<const ReferenceChain> extremes = {};
};

// "" if int8 products of these matrices are defined, otherwise the reason. The elements of a dataset must be the
// numbers themselves, except for one scale of the tensor.
std::string why_no_product(std::span<const datasets::Matrix> matrices);
std::string why_no_product(const datasets::Dataset& dataset);

// Chained if and only if rows of layer i equal cols of layer i+1 throughout. Inputs of unchained layers repeat the
// dataset's initial vector cyclically. Throws std::invalid_argument where an int32 accumulator could overflow (cols >
// 131072).
ReferenceChain compute_reference_chain(const datasets::Dataset& dataset);

// The chain of the same layers from another vector, with the same scales, so outputs may saturate.
ReferenceChain continue_chain(const ReferenceChain& chain, std::span<const datasets::Matrix> layers,
                              const std::vector<int8_t>& initial_vector);

}  // namespace ecmv::experiments
