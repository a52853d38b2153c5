// A decoding step (op `step`): the product of every linear layer of a model with a batch of tokens, as one pass. Layers
// differ in shape, and in a mix also in codec, so each gets its own kernel.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "experiments/check/check.h"
#include "experiments/config/mix.h"
#include "experiments/plan/split.h"
#include "reports/record.h"

namespace ecmv::experiments {

// The layers of a step. Blocks may stand in memory several times, so that a large model is timed with few encoded
// blocks; a layer outside of blocks (lm_head) stands there once.
struct StepLayers {
  std::vector<size_t> order;               // the matrix of each layer: all blocks, again and again, then the others
  std::vector<int64_t> copies;             // of each matrix
  int64_t blocks = 0, encoded_blocks = 0;  // in memory; different ones
};
StepLayers step_layers(const std::vector<datasets::Matrix>& matrices, int repeat);

struct StepKernels {
  Outcome outcome;                                   // refused if a layer has no kernel
  std::vector<backends::ChosenKernel> kernels = {};  // for each layer of the plan
  std::vector<double> layer_s = {};  // seconds of one such layer by that kernel alone; unknown if untimed
};

// The task for which kernels are chosen: of a step, or of a matmul of the variant `auto`.
struct StepTask {
  const KernelSpec& kernel;
  const CodecChoice& codec;
  const std::vector<backends::CompressedMatrix>& encoded;  // by matrix, a part for each rank that shares it
  std::span<const LayerSplit> splits;                      // by matrix; empty without ranks
  const Reference& reference;
  const backends::PassPlan& plan;  // with layers, tokens and scales of weights
  double trial_s = 20;             // that a loaded library's kernel may take when it is tried
  backends::Split split_of(size_t matrix) const {
    return splits.empty() ? backends::Split::rows_gathered : splits[matrix].how;
  }
  std::span<const backends::CompressedMatrix> parts_of(size_t matrix) const {
    const size_t parts = encoded.size() / std::max<size_t>(1, reference.matrices->size());
    return std::span(encoded).subspan(matrix * parts, parts);
  }
};

// One choice for all layers of one shape, type, codec and split: the fastest of the kernels that KernelSpec allows and
// that refuse none of these layers, found by timing some of the layers alone; without timing the first kernel. A codec
// without a fused kernel for the layers, or for their scales, runs unfused. `auto` times nothing: it takes the first in
// the order of backends/kernel_order.h.
StepKernels choose_kernels(const StepTask& task, backends::Device& device, const PreparePass& prepare, bool time);

// "fragments warpgroup32, unfused plain": each kernel of a pass with that op once.
std::string kernel_names(std::span<const backends::ChosenKernel> kernels, backends::Op op);

// A row for each kind of layer, shape, codec and kernel.
std::vector<reports::CaseRecord::Step::Part> step_parts(const StepTask& task, const StepKernels& chosen);

}  // namespace ecmv::experiments
