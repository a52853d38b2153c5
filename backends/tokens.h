// How the tokens of a float product lie in memory: each padded with zeros up to a multiple of 16 numbers, at least 16 of them, as
// KernelCall (kernel.h) promises kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace ecmv::backends {

inline int64_t token_stride(int64_t cols) { return (cols + 15) / 16 * 16 + kVectorPaddingBytes / static_cast<int64_t>(sizeof(float)); }

// Throws std::invalid_argument where a plan has not `batch` tokens for each of its layers.
inline void check_tokens(const PassPlan& plan) {
  bool fits = plan.tokens.size() == plan.layers.size() && plan.batch >= 1 && plan.batch <= kMaxBatch;
  for (size_t i = 0; i < plan.layers.size() && fits; ++i) fits = static_cast<int64_t>(plan.tokens[i].size()) == plan.batch * plan.layers[i]->view().shape.cols;
  if (!fits) throw std::invalid_argument("A float product needs a batch of 1 to " + std::to_string(kMaxBatch) + " tokens for every layer.");
}

// `tokens` [batch, cols] as [batch, token_stride(cols)].
inline std::vector<float> padded_tokens(std::span<const float> tokens, int64_t cols, int batch) {
  const int64_t stride = token_stride(cols);
  std::vector<float> padded(static_cast<size_t>(batch * stride));
  for (int token = 0; token < batch; ++token) std::copy_n(tokens.begin() + token * cols, cols, padded.begin() + token * stride);
  return padded;
}

}  // namespace ecmv::backends
