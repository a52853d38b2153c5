// See kernel_order.h.
#include "backends/kernel_order.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ecmv::backends {
namespace {

// Decoding all of a matrix and writing it takes about as long as two readings by a kernel that multiplies 128 tokens at
// a time: on an H200 256 tokens take 109 us by that kernel and 107 by a BLAS at 14336 x 4096, 512 take 746 and 597 at
// 16384 x 16384 (codecs/quad_huffman/notes/many_tokens.md).
constexpr int kMostReadings = 2;

int tokens_at_once(const Kernel& kernel) {
  return kernel.tokens_at_once > 0 ? kernel.tokens_at_once : kernel.most_tokens;
}

int readings(const Kernel& kernel, int batch) { return (batch + tokens_at_once(kernel) - 1) / tokens_at_once(kernel); }

bool does(const Kernel& kernel, const WantedKernel& wanted) {
  if (kernel.op != wanted.op || kernel.whole_chain) return false;
  if (wanted.op != Op::matmul) return true;
  static const datasets::Scales none;
  const bool reads = kernel.activations == wanted.tokens || (wanted.widens && kernel.activations == Activations::f32);
  return reads && takes_scales(kernel, wanted.scales == nullptr ? none : *wanted.scales);
}

std::vector<const Kernel*> fused_in_order(std::span<const Kernel> kernels, const CompressedView& matrix,
                                          const DeviceInfo& device, const WantedKernel& wanted) {
  std::vector<const Kernel*> fused;
  for (const Kernel& kernel : kernels)
    if (does(kernel, wanted)) fused.push_back(&kernel);
  if (wanted.op != Op::matmul) return fused;
  std::ranges::stable_sort(fused, std::ranges::greater(), [&](const Kernel* kernel) {
    return std::tuple(kernel->activations == wanted.tokens, std::min(tokens_at_once(*kernel), wanted.batch),
                      kernel->leads == nullptr || kernel->leads(matrix, device, wanted.batch));
  });
  return fused;
}

}  // namespace

std::vector<ChosenKernel> kernels_in_order(std::span<const Kernel> kernels, const CompressedView& matrix,
                                           const DeviceInfo& device, const WantedKernel& wanted) {
  const auto policy_of = [&](const Kernel& kernel) -> const Policy& {
    return chosen_policy(kernel, matrix, device,
                         kernel.op == Op::matmul ? std::min(wanted.batch, kernel.most_tokens) : 1);
  };
  std::vector<const Kernel*> order = fused_in_order(kernels, matrix, device, wanted);
  const auto best = std::ranges::find_if(
      order, [&](const Kernel* kernel) { return kernel->refuses(matrix, device, policy_of(*kernel)).empty(); });
  const bool decodes_first =
      wanted.op == Op::matmul && wanted.blas && (best == order.end() || readings(**best, wanted.batch) > kMostReadings);
  std::vector<const Kernel*> decoders;
  for (const Kernel& kernel : kernels)
    if (wanted.op != Op::decode && kernel.op == Op::decode) decoders.push_back(&kernel);
  order.insert(decodes_first ? order.begin() : order.end(), decoders.begin(), decoders.end());
  std::vector<ChosenKernel> all;
  for (const Kernel* kernel : order) {
    const Policy& chosen = policy_of(*kernel);
    all.push_back({kernel, &chosen});
    for (const Policy& policy : kernel->policies)
      if (&policy != &chosen) all.push_back({kernel, &policy});
  }
  return all;
}

bool multiplies_by_blas(const Executor& executor, const CompressedView& matrix, bool scaled, Activations tokens) {
  return executor.most_decoded_tokens() > kMaxBatch &&
         executor.decoded_activations(matrix, scaled, tokens) == Activations::bf16;
}

bool multiplies_by_blas(Device& device, const CompressedView& matrix, bool scaled, Activations tokens) {
  if (device.info().wave_size == 0 || tokens != Activations::bf16) return false;
  const std::unique_ptr<Executor> executor = device.executor(false);
  return executor != nullptr && multiplies_by_blas(*executor, matrix, scaled, tokens);
}

}  // namespace ecmv::backends
