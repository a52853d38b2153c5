// GPU kernels of raw_f8: the copy, and products with tokens of bf16.
#include "codecs/modelling/plain_gpu.h"

namespace ecmv::codecs::raw_f8::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;
namespace plain = modelling::ECMV_GPU_NAMESPACE;

constexpr backends::Kernel kKernels[] = {plain::kPlainCopy,
                                         plain::kPlainTokens<gpu::F8Elements, gpu::kF8TokenPolicies>};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_f8::ECMV_GPU_NAMESPACE
