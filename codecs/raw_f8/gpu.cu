// GPU kernels of raw_f8: the copy, and products with tokens of bf16 (backends/gpu/products/token_matmul.h).
#include <string>

#include "backends/gpu/copy_bytes.h"
#include "backends/gpu/products/token_matmul.h"
#include "codecs/raw_f8/format.h"

namespace ecmv::codecs::raw_f8::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

backends::BoundKernel bind_copy(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  return gpu::CopyElements{matrix.sections[kElements].bytes.data(), matrix.shape.elements()};
}

backends::BoundKernel bind_tokens(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place& place) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  return gpu::bind_token_product<gpu::kTokenPolicies>(
      policy, gpu::F8Elements{}, {matrix.sections[kElements].bytes.data(), matrix.shape.cols, matrix.shape}, batch,
      place.device());
}
std::string refuses_tokens(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  return gpu::why_no_token_product<gpu::F8Elements>(policy.as<gpu::TokenPolicy>(), matrix.shape, device);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "copy", .bind = bind_copy},
    {.op = backends::Op::matmul,
     .variant = "tokens",
     .policies = gpu::kTokenPolicies,
     .activations = backends::Activations::bf16,
     .refuses = refuses_tokens,
     .bind = bind_tokens},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_f8::ECMV_GPU_NAMESPACE
