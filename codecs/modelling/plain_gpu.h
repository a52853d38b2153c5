// The kernels that the uncompressed codecs share on GPUs: decode, which copies, and the product with tokens of bf16 on
// matrix units (backends/gpu/products/token_matmul.h).
#pragma once

#include "backends/gpu/copy_bytes.h"
#include "backends/gpu/products/token_matmul.h"
#include "codecs/modelling/plain_elements.h"
#include "codecs/modelling/sections_gpu.h"

namespace ecmv::codecs::modelling::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

inline backends::BoundKernel bind_plain_copy(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  return gpu::CopyElements{plain_elements<std::byte>(matrix), matrix.shape.rows * plain_row_bytes(matrix)};
}

inline constexpr backends::Kernel kPlainCopy = {.op = backends::Op::decode, .variant = "copy", .bind = bind_plain_copy};

// `kPolicies` of `Elements`, for a matrix whose rows are stored as they are.
template <const auto& kPolicies, typename Elements>
backends::BoundKernel bind_plain_rows(const backends::Policy& policy, const Elements& elements,
                                      const CompressedView& matrix, int batch, const backends::Place& place) {
  return gpu::bind_token_product<kPolicies>(policy, elements,
                                            {plain_elements<std::byte>(matrix), plain_row_bytes(matrix), matrix.shape},
                                            batch, place.device());
}

template <typename Elements, const auto& kPolicies>
backends::BoundKernel bind_plain_tokens(const backends::Policy& policy, backends::Layers layers, int batch,
                                        backends::Place& place) {
  return bind_plain_rows<kPolicies>(policy, Elements{}, *layers[0].matrix, batch, place);
}
template <typename Elements>
std::string refuses_plain_tokens(const CompressedView& matrix, const backends::DeviceInfo& device,
                                 const backends::Policy& policy) {
  return gpu::why_no_token_product<Elements>(policy.as<gpu::TokenPolicy>(), matrix.shape, device);
}

template <typename Elements, const auto& kPolicies>
inline constexpr backends::Kernel kPlainTokens = {.op = backends::Op::matmul,
                                                  .variant = "tokens",
                                                  .policies = kPolicies,
                                                  .activations = backends::Activations::bf16,
                                                  .refuses = refuses_plain_tokens<Elements>,
                                                  .bind = bind_plain_tokens<Elements, kPolicies>};

}  // namespace ecmv::codecs::modelling::ECMV_GPU_NAMESPACE
