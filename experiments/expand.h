// Which kernels a block of a config asks for: the choice of backends, instruction sets, variants and tunings, applied
// to a codec's kernels in the registry.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codecs/registry.h"
#include "experiments/case.h"

namespace ecmv::experiments {

struct KernelChoice {
  // Backend ids, or "best": `simd` where the codec has a SIMD kernel for the op, otherwise `scalar`.
  std::vector<std::string> backends = {"best"};
  std::vector<std::string> simd_targets = {"best"};  // Highway's names, "best", or "all" that this CPU has
  std::vector<int64_t> threads = {0};
  std::vector<int64_t> ranks = {0};  // of matvec; 0: all that were started
  std::vector<backends::Op> ops = {backends::Op::matvec};
  std::vector<int64_t> batches = {1};             // tokens, of matmul
  std::vector<std::string> variants = {"all"};    // names, "first" or "all"
  std::vector<std::string> tunings = {"all"};     // names, "first" or "all"
  std::vector<std::string> launches = {"graph"};  // "graph", "plain"; of GPUs
  std::vector<int64_t> devices = {-1};            // numbers, -1: the first that fits; of GPUs
  std::string unfused = "auto";                   // "auto": where there is no fused kernel; "always"; "never"
};

// `scalar` and `simd`, which have the axis `threads`; the others are GPUs, with the axes `device` and `launch`.
bool on_host(std::string_view backend);

// The kernels of one codec that the choice names, in the registry's order. Backends that the codec has no kernels for
// give nothing; a codec without any kernel gets its reference decoder on `scalar`. The op `size` gives one entry
// whatever the backends. `scales_in_groups`: those of the data; no fused kernel takes them, so that `auto` runs unfused.
std::vector<KernelSpec> expand_kernels(const KernelChoice& choice, const codecs::CodecEntry& entry,
                                       bool scales_in_groups = false);

}  // namespace ecmv::experiments
