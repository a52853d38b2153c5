// The two tiers of checking. A message is empty when all is well, otherwise it names the first difference.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "codecs/registry.h"
#include "datasets/matrix.h"
#include "experiments/chain.h"
#include "experiments/products.h"
#include "reports/record.h"

namespace ecmv::experiments {

// The compressed layers of one codec, with what went wrong on the way.
struct EncodedLayers {
  std::vector<codecs::CompressedMatrix> layers;
  std::string refused;    // reason of the first layer that the codec refuses
  std::string error;      // what an encoder or decoder threw
  std::string incorrect;  // tier 1: where the reference decode differs from the source, or from it by more than the codec's bound
  std::string decode = "exact";  // or which bound the reference decode keeps
  // Of codecs that are lossy for these matrices: what the reference decoder made of each layer, which kernels must reproduce.
  std::shared_ptr<std::vector<datasets::Matrix>> decoded;
  double ideal_bits_per_element = reports::kUnknown;  // of all layers together, where the codec knows it
};

// A codec with one choice of settings.
struct CodecChoice {
  const codecs::CodecEntry* entry = nullptr;
  codecs::Settings settings;
};

// Tier 1: refuses?, encode, reference decode, comparison byte for byte (of lossy codecs: under the bound that they state) and the
// declared bound of the size. One thread works on one layer of one codec; several codecs at once keep all threads busy where layers are few.
std::vector<EncodedLayers> encode_and_check(std::span<const CodecChoice> codecs, const std::vector<datasets::Matrix>& matrices);

// What results are compared with.
struct Reference {
  // The source's, of lossy codecs those that the reference decoder made.
  const std::vector<datasets::Matrix>* matrices = nullptr;
  const ReferenceChain* chain = nullptr;        // matvec
  const ReferenceProducts* products = nullptr;  // matmul
};

// What tiers 2a and 2b found.
struct OutputCheck {
  std::string outputs;  // difference to the reference
  std::string guards;   // broken guard zones
  double bound_used = 0;  // matmul: the largest error as a part of its bound
  bool fine() const { return outputs.empty() && guards.empty(); }
};

// Tier 2a: poisons every output, runs layer by layer and compares each element of each layer's result.
OutputCheck check_every_layer(backends::Pass& pass, const backends::PassPlan& plan, const Reference& reference);

// Tier 2a of matmuls with long rows: the same with sparse tokens (compute_probes), in passes of their own. Of a small batch not all tokens are
// taken for every layer, but other ones for the next.
OutputCheck check_probes(backends::Device& device, backends::PassPlan plan, const ReferenceProducts& probes);

// Tier 2b: what the last timed pass left behind.
OutputCheck check_last_pass(backends::Pass& pass, const backends::PassPlan& plan, const Reference& reference);

}  // namespace ecmv::experiments
