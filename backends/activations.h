// The tokens of float products, as they lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/kernel.h"

namespace ecmv::backends {

int64_t bytes_of(Activations activations);

// Elements from one token to the next in memory: `cols` numbers and the zeros that MatmulArgs promises.
int64_t token_stride(int64_t cols, Activations activations);

// One token's numbers in the form they have in memory. For bf16, throws std::invalid_argument if bf16 does not hold a
// number.
std::vector<std::byte> activations_of(std::span<const float> token, Activations activations);

// `tokens` [batch, cols] as [batch, token_stride(cols)] in memory.
std::vector<std::byte> padded_tokens(std::span<const float> tokens, int64_t cols, int batch, Activations activations);

}  // namespace ecmv::backends
