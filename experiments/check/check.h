// The two tiers of checking. A message is empty if all is well, otherwise it names the first difference.
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
  // If not ok, the outcome of the first layer that failed: refused by the codec, incorrect (tier 1), or an exception of
  // the encoder or decoder.
  Outcome outcome;
  std::vector<backends::CompressedMatrix> layers;
  std::string decode = "exact";  // or the bound that the reference decode keeps
  // For codecs that are lossy on these matrices: the reference decoder's output for each layer, which kernels must
  // reproduce.
  std::shared_ptr<std::vector<datasets::Matrix>> decoded;
  double ideal_bits_per_element = reports::kUnknown;  // of all layers together, if the codec knows it
};

// Tier 1: asks whether the codec refuses, encodes, decodes by the reference, compares byte for byte (for lossy codecs:
// with the bound that they state), and checks the declared bound of the size. One thread works on one layer of one
// codec; several codecs at once keep all threads busy where layers are few. Once `interrupted`, the rest stays undone.
std::vector<EncodedLayers> encode_and_check(
    std::span<const CodecChoice> codecs, const std::vector<datasets::Matrix>& matrices,
    const std::function<bool()>& interrupted = [] { return false; });

// How many codecs from the front to encode at once: enough to give each thread up to four layers, as far as half of the
// memory holds them; at least one.
size_t encoded_at_once(std::span<const CodecChoice> codecs, const std::vector<datasets::Matrix>& matrices);

// The reference for results.
struct Reference {
  // The source's matrices; for lossy codecs, the reference decoder's output.
  std::shared_ptr<const std::vector<datasets::Matrix>> matrices;
  std::shared_ptr<const ReferenceChain> chain;  // matvec
  std::shared_ptr<FloatReference> floats = {};  // matmul, of `matrices`; tokens in float32
  std::shared_ptr<FloatReference> bf16 = {};    // tokens in bf16
  // The matrix of each layer of the pass, for a step that uses some of them more than once. Empty: each once.
  std::vector<size_t> order = {};

  size_t layers() const { return order.empty() ? matrices->size() : order.size(); }
  size_t matrix_of(size_t layer) const { return order.empty() ? layer : order[layer]; }

  // The reference for a case with these activations: its tokens' products are `floats`.
  Reference of(backends::Activations activations) const {
    Reference reference = *this;
    if (activations == backends::Activations::bf16) reference.floats = bf16;
    return reference;
  }
};

// Findings of tiers 2a and 2b.
struct OutputCheck {
  std::string outputs;    // difference to the reference
  std::string guards;     // broken guard zones
  double bound_used = 0;  // matmul: the largest error relative to its bound
  std::string widening;   // matmul: what the kernel adds to the bound of float32 sums, if it is unusual
  bool fine() const { return outputs.empty() && guards.empty(); }
  Outcome outcome() const {
    return fine() ? Outcome{} : Outcome{reports::Status::incorrect, outputs.empty() ? guards : outputs};
  }
};

// Tier 2a: poisons every output, runs layer by layer and compares each element of each result.
OutputCheck check_every_layer(backends::Pass& pass, backends::Op op, const Reference& reference);

// Tier 2a for matmuls with long rows: the same with sparse tokens (the reference's probes), in passes of their own. A
// small batch takes only some of the tokens for a layer, and others for the next.
using PreparePass = std::function<std::unique_ptr<backends::Pass>(backends::Device&, const backends::PassPlan&)>;
OutputCheck check_probes(const PreparePass& prepare, backends::Device& device, backends::PassPlan plan,
                         const Reference& reference);

// Tier 2a for matmuls: one layer with subnormal tokens, in a pass of its own.
OutputCheck check_subnormal_tokens(const PreparePass& prepare, backends::Device& device, backends::PassPlan plan,
                                   const Reference& reference);

// Tier 2a for int8 products: the same with the chains of extremes, in a pass of its own.
OutputCheck check_extremes(const PreparePass& prepare, backends::Device& device, backends::PassPlan plan,
                           const Reference& reference);

// One layer's results, as they lie there. For decoding they are those of the layer that ran last. `all_threads`: may
// compare; not between passes that the host's cores are timed in.
OutputCheck check_layer(backends::Pass& pass, backends::Op op, const Reference& reference, size_t layer,
                        bool all_threads);

// Tier 2b. `layers`: how many layers ran. For decoding it compares the last of them, the only one whose result is left.
OutputCheck check_last_pass(backends::Pass& pass, backends::Op op, const Reference& reference, size_t layers);
// Sets the reference's inputs. `batch`: for float products.
void set_inputs(backends::Pass& pass, backends::Op op, const Reference& reference, int batch);
// Checks the results of the last whole pass that need no waiting (Pass::result): the whole vector of an int8 product,
// the absence of NaN in float products, the marked bytes of a decoded matrix. `round`: of the marks.
Outcome check_result(const backends::Pass& pass, backends::Op op, const Reference& reference, int round);

}  // namespace ecmv::experiments
