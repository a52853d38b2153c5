// The two tiers of checking. A message is empty when all is well, otherwise it names the first difference.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/pass.h"
#include "codecs/registry.h"
#include "datasets/matrix.h"
#include "experiments/check/chain.h"
#include "experiments/check/outcome.h"
#include "experiments/check/products.h"
#include "experiments/config/mix.h"
#include "reports/record.h"

namespace ecmv::experiments {

// The compressed layers of one codec.
struct EncodedLayers {
  // Unless ok, that of the first layer that is not: refused by the codec, incorrect (tier 1), or what the encoder or
  // decoder threw.
  Outcome outcome;
  std::vector<backends::CompressedMatrix> layers;
  std::string decode = "exact";  // or which bound the reference decode keeps
  // For codecs that are lossy for these matrices: the reference decoder's output for each layer, which kernels must
  // reproduce.
  std::shared_ptr<std::vector<datasets::Matrix>> decoded;
  double ideal_bits_per_element = reports::kUnknown;  // of all layers together, where the codec knows it
};

// Tier 1: refuses?, encode, reference decode, comparison byte for byte (of lossy codecs: under the bound that they
// state) and the declared bound of the size. One thread works on one layer of one codec; several codecs at once keep
// all threads busy where layers are few. Once `interrupted`, the rest stays undone.
std::vector<EncodedLayers> encode_and_check(
    std::span<const CodecChoice> codecs, const std::vector<datasets::Matrix>& matrices,
    const std::function<bool()>& interrupted = [] { return false; });

// How many codecs from the front are encoded at once: as many as give each thread up to four layers and half of the
// memory holds; at least one.
size_t encoded_at_once(std::span<const CodecChoice> codecs, const std::vector<datasets::Matrix>& matrices);

// What results are compared with.
struct Reference {
  // The source's. For lossy codecs what the reference decoder made.
  std::shared_ptr<const std::vector<datasets::Matrix>> matrices;
  std::shared_ptr<const ReferenceChain> chain;  // matvec
  std::shared_ptr<FloatReference> floats = {};  // matmul, of `matrices`; tokens in float32
  std::shared_ptr<FloatReference> bf16 = {};    // tokens in bf16
  // The matrix of each layer of the pass, for a step that walks over some of them more than once. Empty: each once.
  std::vector<size_t> order = {};

  size_t layers() const { return order.empty() ? matrices->size() : order.size(); }
  size_t matrix_of(size_t layer) const { return order.empty() ? layer : order[layer]; }

  // What a case with these activations is compared with: its tokens' products are `floats`.
  Reference of(backends::Activations activations) const {
    Reference reference = *this;
    if (activations == backends::Activations::bf16) reference.floats = bf16;
    return reference;
  }
};

// What tiers 2a and 2b found.
struct OutputCheck {
  std::string outputs;    // difference to the reference
  std::string guards;     // broken guard zones
  double bound_used = 0;  // matmul: the largest error as a part of its bound
  bool fine() const { return outputs.empty() && guards.empty(); }
  Outcome outcome() const {
    return fine() ? Outcome{} : Outcome{reports::Status::incorrect, outputs.empty() ? guards : outputs};
  }
};

// Tier 2a: poisons every output, runs layer by layer and compares each element of each layer's result.
OutputCheck check_every_layer(backends::Pass& pass, backends::Op op, const Reference& reference);

// Tier 2a of matmuls with long rows: the same with sparse tokens (the reference's probes), in passes of their own. In a
// small batch not all tokens are taken for every layer, but other ones for the next.
using PreparePass = std::function<std::unique_ptr<backends::Pass>(backends::Device&, const backends::PassPlan&)>;
OutputCheck check_probes(const PreparePass& prepare, backends::Device& device, backends::PassPlan plan,
                         const Reference& reference);

// Tier 2b. `changed`: the pass had the changed inputs (chain.h; of a float product the tokens of the next place,
// negated). `layers`: how many layers ran; of decoding, the last of them is compared, for only that is left.
OutputCheck check_last_pass(backends::Pass& pass, backends::Op op, const Reference& reference, bool changed,
                            size_t layers);
// The inputs of a pass over the reference's layers as they are, or changed. `batch`: of a float product.
void set_inputs(backends::Pass& pass, backends::Op op, const Reference& reference, int batch, bool changed);
// What is at hand of the last whole pass without waiting (Pass::result): the whole vector of a product of int8; no NaN
// is left in float products; the marked bytes of a decoded matrix.
Outcome check_result(const backends::Pass& pass, backends::Op op, const Reference& reference, bool changed);

}  // namespace ecmv::experiments
