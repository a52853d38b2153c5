// From the axes of a block to the kernels of a codec in the registry.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "codecs/registry.h"
#include "experiments/config/axes.h"
#include "experiments/config/case.h"

namespace ecmv::experiments {

// The kernels of one codec that the choice names, in the registry's order, and an entry for the task `size` whatever
// the backends. A backend that the codec has no kernels for gives nothing; a codec without any kernel gets its
// reference decoder on `scalar`. `group_cols`: the columns that share a scale in the data, 0 where a row has one scale
// at most. Where no fused kernel takes them, "auto" runs unfused.
std::vector<KernelSpec> expand_kernels(const KernelChoice& choice, const codecs::CodecEntry& entry,
                                       int64_t group_cols = 0);

// The decoding steps that the choice names, with one codec or with all codecs of a mix: a case for each word of
// `variants` and `policies`, because a step finds its kernels by itself. None where one of the codecs has no kernel.
std::vector<KernelSpec> expand_steps(const KernelChoice& choice, std::span<const codecs::CodecEntry* const> entries);

// What a kernel has to do.
struct Work {
  backends::Op op;
  backends::Activations activations = backends::Activations::f32;  // matmul
  int64_t group_cols = 0;                                          // matmul, as above
};

// The codec's kernels that do this work on the backend, with the policies that two words allow: a name, "first", "all"
// or "best". "auto" gives a kernel without a policy: it chooses one for matrix, device and batch (chosen_policy).
std::vector<backends::ChosenKernel> kernels_for(const codecs::CodecEntry& entry, std::string_view backend,
                                                const Work& work, std::string_view variant, std::string_view policy);

// The largest last-level cache among the devices of these backends ("best": the CPU), bytes; 0: unknown.
int64_t largest_cache(std::span<const std::string> backends);

// The number that `layers: streamed` stands for: enough layers of this shape that a pass touches four times the cache
// even with a codec that stores half of the source's bytes. Fewer where that would be more than kMostStreamedBytes of
// elements (time) or than half of the memory that is free.
int streamed_layers(const DataSpec& data, int64_t cache_bytes);
inline constexpr int64_t kMostStreamedBytes = int64_t{1} << 30;

}  // namespace ecmv::experiments
