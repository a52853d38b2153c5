// Turns the axes of a block into kernels of a codec in the registry.
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
// the backends. A backend for which the codec has no kernel gives nothing; a codec without any kernel gets its
// reference decoder on `scalar`. `group_cols` is the number of columns that share a scale in the data, 0 if a row has
// at most one scale. If no fused kernel takes such groups, "auto" runs unfused. The variant "auto" of a matmul is a
// case of its own, without a kernel: which one it takes depends on the matrix and the device.
std::vector<KernelSpec> expand_kernels(const KernelChoice& choice, const codecs::CodecEntry& entry,
                                       int64_t group_cols = 0);

// The decoding steps that the choice names, with one codec or with all codecs of a mix: a case for each word of
// `variants` and `policies`, because a step finds its kernels by itself. None if one of the codecs has no kernel.
std::vector<KernelSpec> expand_steps(const KernelChoice& choice, std::span<const codecs::CodecEntry* const> entries);

// The work that a kernel has to do.
struct Work {
  backends::Op op;
  backends::Activations activations = backends::Activations::f32;  // matmul
  int64_t group_cols = 0;                                          // matmul, as above
};

// The codec's kernels that do this work on the backend, with the policies that two words allow: a name, "first", "all"
// or "best". "auto" gives a kernel without a policy, which chooses one for matrix, device and batch (chosen_policy).
std::vector<backends::ChosenKernel> kernels_for(const codecs::CodecEntry& entry, std::string_view backend,
                                                const Work& work, std::string_view variant, std::string_view policy);

// The largest last-level cache of these backends' devices ("best": the CPU), in bytes; 0: unknown.
int64_t largest_cache(std::span<const std::string> backends);

// The number of layers for `layers: streamed`: enough layers of this shape that a pass touches four times the cache
// even with a codec that stores half of the source's bytes. Fewer if they exceeded kMostStreamedBytes of elements (for
// time) or half of the free memory.
int streamed_layers(const DataSpec& data, int64_t cache_bytes);
inline constexpr int64_t kMostStreamedBytes = int64_t{1} << 30;

}  // namespace ecmv::experiments
