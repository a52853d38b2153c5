// GPU kernels of raw_f8: the copy, and products with tokens of bf16 (backends/gpu/token_matmul.h).
#include <string>

#include "backends/gpu/token_matmul.h"
#include "codecs/raw_f8/format.h"

namespace ecmv::codecs::raw_f8::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

constexpr int kCopyThreads = 256;

// One thread copies 16 bytes; the thread after the last whole 16 copies the rest.
ECMV_GPU_KERNEL void copy(gpu::Pointer<const uint8_t> from, gpu::Pointer<uint8_t> to, int64_t elements) {
  const int64_t chunk = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (chunk < elements / 16) {
    gpu::cast<gpu::uint4>(to)[chunk] = gpu::load_streaming(gpu::cast<const gpu::uint4>(from) + chunk);
  } else if (chunk == elements / 16) {
    for (int64_t i = chunk * 16; i < elements; ++i) to[i] = from[i];
  }
}

struct Copy {
  const uint8_t* elements;
  int64_t count;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    gpu::launch(copy, {(count / 16 + kCopyThreads) / kCopyThreads, kCopyThreads, 0}, stream, elements,
                reinterpret_cast<uint8_t*>(args.out), count);
  }
};

backends::BoundKernel bind_copy(const backends::Policy&, std::span<const backends::Layer> layers, backends::Place&) {
  return Copy{elements_of(*layers[0].matrix), layers[0].matrix->shape.elements()};
}

backends::BoundKernel bind_tokens(const backends::Policy& policy, std::span<const backends::Layer> layers,
                                  backends::Place& place) {
  const codecs::CompressedView& matrix = *layers[0].matrix;
  return gpu::bind_token_product<gpu::kTokenPolicies>(
      policy, gpu::F8Elements{}, {matrix.sections[kElements].bytes.data(), matrix.shape.cols, matrix.shape},
      place.device());
}
std::string refuses_tokens(const codecs::CompressedView& matrix, const backends::DeviceInfo& device,
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
