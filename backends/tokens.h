// How the tokens of a float product lie in memory: each padded with zeros up to a multiple of 16 numbers, at least 16 of them, as
// KernelCall (kernel.h) promises kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/kernel.h"

namespace ecmv::backends {

inline int64_t token_stride(int64_t cols) { return (cols + 15) / 16 * 16 + kVectorPaddingBytes / static_cast<int64_t>(sizeof(float)); }

// `tokens` [batch, cols] as [batch, token_stride(cols)].
inline std::vector<float> padded_tokens(std::span<const float> tokens, int64_t cols, int batch) {
  const int64_t stride = token_stride(cols);
  std::vector<float> padded(static_cast<size_t>(batch * stride));
  for (int token = 0; token < batch; ++token) std::copy_n(tokens.begin() + token * cols, cols, padded.begin() + token * stride);
  return padded;
}

}  // namespace ecmv::backends
