// Tokens of float products as kernels find them in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/kernel.h"

namespace ecmv::backends {

int64_t bytes_of(Activations activations);

// Activations of a token in memory: cols numbers and zeros, as MatmulArgs promises.
int64_t token_stride(int64_t cols, Activations activations);

// One token's numbers as they are in memory. Throws std::invalid_argument for one that is none of bf16 and should be.
std::vector<std::byte> activations_of(std::span<const float> token, Activations activations);

// `tokens` [batch, cols] as [batch, token_stride(cols)] in memory.
std::vector<std::byte> padded_tokens(std::span<const float> tokens, int64_t cols, int batch, Activations activations);

}  // namespace ecmv::backends
