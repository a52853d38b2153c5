// See activations.h.
#include "backends/activations.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace ecmv::backends {
namespace {

uint16_t bf16_of(float number) {
  uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  if (bits % 0x10000 != 0) throw std::invalid_argument("A token is no number of bf16.");
  return static_cast<uint16_t>(bits >> 16);
}

}  // namespace

int64_t bytes_of(Activations activations) { return activations == Activations::bf16 ? 2 : 4; }

int64_t token_stride(int64_t cols, Activations activations) {
  const int64_t of_padding = kVectorPaddingBytes / bytes_of(activations);
  return (cols + of_padding - 1) / of_padding * of_padding + of_padding;
}

std::vector<std::byte> activations_of(std::span<const float> token, Activations activations) {
  const auto bytes = std::as_bytes(token);
  if (activations == Activations::f32) return {bytes.begin(), bytes.end()};
  std::vector<std::byte> halves(token.size() * sizeof(uint16_t));
  for (size_t i = 0; i < token.size(); ++i) {
    const uint16_t half = bf16_of(token[i]);
    std::memcpy(halves.data() + i * sizeof(half), &half, sizeof(half));
  }
  return halves;
}

std::vector<std::byte> padded_tokens(std::span<const float> tokens, int64_t cols, int batch, Activations activations) {
  const int64_t stride_bytes = token_stride(cols, activations) * bytes_of(activations);
  std::vector<std::byte> padded(static_cast<size_t>(batch * stride_bytes));
  for (int token = 0; token < batch; ++token)
    std::ranges::copy(
        activations_of(tokens.subspan(static_cast<size_t>(token * cols), static_cast<size_t>(cols)), activations),
        padded.begin() + token * stride_bytes);
  return padded;
}

}  // namespace ecmv::backends
