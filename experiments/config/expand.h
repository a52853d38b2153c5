// Which kernels a block of a config asks for: the choice of backends, instruction sets, variants and tunings, applied
// to a codec's kernels in the registry.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codecs/registry.h"
#include "experiments/config/case.h"

namespace ecmv::experiments {

struct KernelChoice {
  // Backend ids, or "best": `simd` where the codec has a SIMD kernel for the op, otherwise `scalar`.
  std::vector<std::string> backends = {"best"};
  std::vector<std::string> simd_targets = {"best"};  // Highway's names, "best", or "all" that this CPU has
  std::vector<int64_t> threads = {0};
  std::vector<int64_t> ranks = {0};            // of products on CPUs; 0: all that a launcher started
  std::vector<int64_t> shared_devices = {0};   // the same of GPUs: devices that share a product
  std::vector<std::string> engines = {"all"};  // by which these exchange vectors; "all" that the backend has
  std::vector<std::string> splits = {"rows"};  // of several ranks or devices: "rows", "pairs"
  std::vector<backends::Op> ops = {backends::Op::matvec};
  bool steps = false;                                                             // op `step` besides
  std::vector<int64_t> batches = {1};                                             // tokens, of matmul and of steps
  std::vector<backends::Activations> activations = {backends::Activations::f32};  // what they are
  std::vector<int64_t> repeats = {1};                                             // of steps: copies of each block
  std::vector<std::string> variants = {"all"};                                    // names, "first" or "all"
  std::vector<std::string> tunings = {"all"};                                     // names, "first" or "all"
  std::vector<std::string> launches = {"graph"};                                  // "graph", "plain"; of GPUs
  std::vector<int64_t> devices = {-1};  // numbers, -1: the first that fits; of GPUs
  std::string unfused = "auto";         // "auto": where there is no fused kernel; "always"; "never"
};

// `scalar` and `simd`, which have the axis `threads`; the others are GPUs, with the axes `device` and `launch`.
bool on_host(std::string_view backend);

// The kernels of one codec that the choice names, in the registry's order. Backends that the codec has no kernels for
// give nothing; a codec without any kernel gets its reference decoder on `scalar`. The op `size` gives one entry
// whatever the backends. `group_cols`: columns of a group with a scale of its own in the data, 0 where there are none; where no
// fused kernel takes them `auto` runs unfused.
std::vector<KernelSpec> expand_kernels(const KernelChoice& choice, const codecs::CodecEntry& entry,
                                       int64_t group_cols = 0);

// The decoding steps that the choice names, of a codec or of all those of a mix. A step finds its kernels by itself: one
// case for each word of `variants` and `tunings`, whatever kernels that are. None where one of the codecs has no kernel.
std::vector<KernelSpec> expand_steps(const KernelChoice& choice, std::span<const codecs::CodecEntry* const> entries);

// use(kernel, policy) for the codec's kernels of an op on a backend under these words: names, "first", "all" or "best".
// `group_cols` as above.
void for_each_kernel(const codecs::CodecEntry& entry, std::string_view backend, backends::Op op,
                     backends::Activations activations, int64_t group_cols, std::string_view variant,
                     std::string_view tuning,
                     const std::function<void(const backends::Kernel&, const backends::Policy&)>& use);

}  // namespace ecmv::experiments
