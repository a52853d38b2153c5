// How ranks share the layers of a product, by rows or in pairs, and which part of each layer a rank has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/pass.h"
#include "datasets/matrix.h"
#include "experiments/config/case.h"

namespace ecmv::experiments {

using backends::LayerSplit;

// Columns are split at multiples of this, so that a part's rows begin and end where loads do.
inline constexpr int64_t kColsOfPart = 64;

// "" or why this kernel's layers can never be in pairs.
std::string why_no_pairs(const KernelSpec& kernel);

// Cuts every layer among the kernel's ranks. A pair (KernelSpec::pairs) is a layer by rows that nobody gathers and one
// by columns, which is cut at the same places if it has as many columns as the first has rows. In a matmul layers 0 and
// 1 are a pair, 2 and 3, and so on; in a step q, k, v with o, and gate, up with down of the same block. Layers without
// a partner are by rows and gathered. Throws backends::Refused if no pairs can be made.
std::vector<LayerSplit> split_layers(const std::vector<datasets::Matrix>& layers, const KernelSpec& kernel);

// The part of each rank, layer after layer, as a rank's codec gets it.
std::vector<datasets::Matrix> parts_of(const std::vector<datasets::Matrix>& layers,
                                       const std::vector<LayerSplit>& splits);

// The exchange of a pass, as bytes of the vectors that all ranks have afterwards.
struct ExchangedBytes {
  int64_t gathered = 0, reduced = 0;
  int64_t exchanges = 0;  // gathers and reductions
};
// After a layer with results of `bytes` bytes.
ExchangedBytes exchanged_after(const LayerSplit& split, int64_t bytes);

}  // namespace ecmv::experiments
