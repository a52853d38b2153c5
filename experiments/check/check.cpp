// See check.h.
#include "experiments/check/check.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "backends/cpu/memory_limits.h"
#include "backends/cpu/team.h"
#include "backends/pass/rounding_limits.h"
#include "codecs/guarded_output.h"

namespace ecmv::experiments {
namespace {

using reports::Status;

template <typename T>
std::string first_difference(std::span<const T> got, std::span<const T> expected, int64_t cols, std::string_view what,
                             size_t layer) {
  if (got.size() != expected.size())
    return fmt::format("layer {}: {} has {} elements instead of {}", layer, what, got.size(), expected.size());
  if (std::equal(got.begin(), got.end(), expected.begin())) return {};  // by words
  const auto [g, e] = std::mismatch(got.begin(), got.end(), expected.begin());
  const int64_t index = g - got.begin();
  const auto differing =
      std::inner_product(got.begin(), got.end(), expected.begin(), int64_t{0}, std::plus<>(), std::not_equal_to<>());
  return fmt::format("layer {}: {} differs at row {}, column {} (got {}, expected {}; {} of {} elements differ)", layer,
                     what, index / cols, index % cols, *g, *e, differing, got.size());
}

// Bytes of one row; elements wider than a byte are compared byte by byte.
int64_t row_bytes(const datasets::Matrix& matrix) {
  return std::max<int64_t>(1, codecs::shape_in_bytes(matrix.view()).cols);
}

std::string compare_decoded(backends::Pass& pass, const datasets::Matrix& matrix, size_t layer) {
  return first_difference<int8_t>(pass.decoded(), matrix.view().i8(), row_bytes(matrix), "the decoded matrix", layer);
}

std::string compare_product(backends::Pass& pass, const ReferenceChain& chain, size_t layer) {
  std::string difference =
      first_difference<int32_t>(pass.accumulators(static_cast<int>(layer)), chain.accumulators[layer], 1, "W x", layer);
  if (difference.empty())
    difference = first_difference<int8_t>(pass.outputs(static_cast<int>(layer)), chain.outputs[layer], 1,
                                          "the requantised vector", layer);
  return difference;
}

// One layer of a float product. `what` names it.
void compare_floats(backends::Pass& pass, const backends::ExactProduct& expected, size_t layer, std::string_view what,
                    OutputCheck& check) {
  const int index = static_cast<int>(layer);
  const backends::ProductRounding rounding = pass.rounding(index);
  const backends::ProductCheck product = backends::check_product(pass.products(index), expected, rounding);
  const double limit = backends::typical_error_limit(rounding, expected.terms);
  if (!product.violation.empty())
    check.outputs = fmt::format("layer {}{}: {}", layer, what, product.violation);
  else if (product.typical > limit)
    check.outputs = fmt::format(
        "layer {}{}: each result keeps its bound, but together they are off by {:.2g} of what they are (root mean "
        "square), more than the {:.2g} that the kernel's roundings explain",
        layer, what, product.typical, limit);
  check.bound_used = std::max(check.bound_used, product.used);
  if (check.widening.empty()) check.widening = backends::widening_of(rounding);
}

void compare_layer(backends::Pass& pass, backends::Op op, const Reference& reference, size_t layer,
                   OutputCheck& check) {
  if (op == backends::Op::decode)
    check.outputs = compare_decoded(pass, (*reference.matrices)[reference.matrix_of(layer)], layer);
  else if (op == backends::Op::matvec)
    check.outputs = compare_product(pass, *reference.chain, layer);
  else
    compare_floats(pass, reference.floats->products().layers[reference.matrix_of(layer)], layer, "", check);
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

bool contains_poison(const datasets::Matrix& matrix) {
  const auto elements = matrix.view().i8();
  return std::find(elements.begin(), elements.end(), int8_t{-128}) != elements.end();
}

// One layer's contribution to the record of its codec.
struct LayerTally {
  Outcome outcome;
  double elements = 0, ideal_bits = 0, bound_used = 0;
  codecs::ErrorBound allowed;
};

// One layer: encode, decode by the reference, compare. The codec gets a copy of its own, since other codecs and the
// references need the matrix as it is.
Outcome encode_layer(const CodecChoice& codec_or_mix, const datasets::Matrix& matrix, size_t layer,
                     EncodedLayers& result, LayerTally& tally) {
  const CodecChoice* const found = codec_or_mix.of(matrix);
  if (found == nullptr)
    return {Status::refused,
            fmt::format("The mix names no codec for layers of the kind '{}'; 'others' stands for all that it leaves.",
                        datasets::layer_kind_name(datasets::layer_kind(matrix.name)))};
  const CodecChoice& choice = *found;
  const codecs::Codec& codec = *choice.entry->codec;
  const datasets::Matrix copy = matrix;
  const std::string refused = codec.refuses == nullptr ? "" : codec.refuses(copy.view(), choice.settings);
  if (!refused.empty()) return {Status::refused, refused};
  backends::CompressedMatrix compressed = codecs::encode_matrix(*choice.entry, copy.view(), choice.settings);
  codecs::GuardedOutput output(matrix.elements.size());
  const std::span<const std::byte> decoded = output.elements();
  codec.decode(compressed.view(), output.elements());
  if (output.written_outside())
    return {Status::incorrect, fmt::format("layer {}: the reference decode wrote outside the matrix", layer)};
  const bool lossy = !codec.lossless && codec.error_bound != nullptr;
  if (lossy) tally.allowed = codec.error_bound(copy.view(), choice.settings);
  if (!tally.allowed.exact()) {
    const codecs::BoundCheck kept = codecs::check_bound(matrix.view(), decoded, tally.allowed);
    if (!kept.violation.empty()) return {Status::incorrect, fmt::format("layer {}: {}", layer, kept.violation)};
    const std::vector<std::byte> zeros(matrix.elements.size());
    if (zeros != matrix.elements && codecs::check_bound(matrix.view(), zeros, tally.allowed).violation.empty())
      return {Status::refused,
              fmt::format("layer {}: a matrix of zeros keeps the error bound that the codec states (relative {:.4g} or "
                          "absolute {:.4g}), so keeping it shows nothing.",
                          layer, tally.allowed.relative, tally.allowed.absolute)};
    tally.bound_used = kept.used;
  } else if (!std::ranges::equal(decoded, matrix.elements)) {
    const auto* got = reinterpret_cast<const int8_t*>(decoded.data());
    return {Status::incorrect, first_difference<int8_t>({got, decoded.size()}, matrix.view().i8(), row_bytes(matrix),
                                                        "the reference decode", layer)};
  }
  tally.elements = static_cast<double>(matrix.shape.elements());
  const double ideal = codec.ideal_bits_per_element == nullptr
                           ? reports::kUnknown
                           : codec.ideal_bits_per_element(copy.view(), choice.settings);
  if (copy.elements != matrix.elements)
    return {Status::error, fmt::format("the codec '{}' changed the matrix that it was asked about", choice.entry->id)};
  tally.ideal_bits = tally.elements > 0 ? tally.elements * ideal : 0;
  if (codec.max_stored_bytes != nullptr) {
    const int64_t bound = codec.max_stored_bytes(codecs::shape_in_bytes(matrix.view()), choice.settings);
    if (compressed.stored_bytes() > bound)
      return {Status::incorrect, fmt::format("layer {}: {} bytes are stored, more than the declared bound of {}", layer,
                                             compressed.stored_bytes(), bound)};
  }
  result.layers[layer] = std::move(compressed);
  if (lossy) (*result.decoded)[layer] = {matrix.name, matrix.shape, matrix.type, output.take(), 0};
  return {};
}

// Adds up the layers of one codec. Layers that a mix codes without loss count as decoded to their original.
void add_up(std::span<const LayerTally> layers, const std::vector<datasets::Matrix>& matrices, EncodedLayers& result) {
  LayerTally sum;
  for (const LayerTally& layer : layers) {
    if (result.outcome.fine()) result.outcome = layer.outcome;
    sum.elements += layer.elements;
    sum.ideal_bits += layer.ideal_bits;
    sum.bound_used = std::max(sum.bound_used, layer.bound_used);
    sum.allowed.relative = std::max(sum.allowed.relative, layer.allowed.relative);
    sum.allowed.absolute = std::max(sum.allowed.absolute, layer.allowed.absolute);
  }
  if (sum.elements > 0) result.ideal_bits_per_element = sum.ideal_bits / sum.elements;
  if (sum.allowed.exact()) return result.decoded.reset();
  for (size_t i = 0; result.outcome.fine() && i < matrices.size(); ++i)
    if (datasets::Matrix& decoded = (*result.decoded)[i]; decoded.elements.empty()) decoded = matrices[i];
  result.decode = fmt::format("within its bound, relative {:.4g} or absolute {:.4g}; the largest error is {:.3g} of it",
                              sum.allowed.relative, sum.allowed.absolute, sum.bound_used);
}

}  // namespace

std::vector<EncodedLayers> encode_and_check(std::span<const CodecChoice> codecs,
                                            const std::vector<datasets::Matrix>& matrices,
                                            const std::function<bool()>& interrupted) {
  const size_t count = matrices.size();
  std::vector<EncodedLayers> results(codecs.size());
  std::vector<LayerTally> tallies(codecs.size() * count);
  for (size_t i = 0; i < codecs.size(); ++i) {
    results[i].layers.resize(count);
    const auto is_lossy = [](const CodecChoice* one) { return !one->entry->codec->lossless; };
    if (std::ranges::any_of(codecs[i].all(), is_lossy))
      results[i].decoded = std::make_shared<std::vector<datasets::Matrix>>(count);
  }
  std::atomic<size_t> next = 0;
  backends::cpu::Team(backends::cpu::Team::available_threads()).run([&](int, int) {
    for (size_t task = next++; task < tallies.size() && !interrupted(); task = next++) {
      const size_t codec = task / count, layer = task % count;
      Outcome& outcome = tallies[task].outcome;
      outcome =
          guarded([&] { return encode_layer(codecs[codec], matrices[layer], layer, results[codec], tallies[task]); });
      if (outcome.status == Status::error) outcome.reason = fmt::format("layer {}: {}", layer, outcome.reason);
    }
  });
  for (size_t i = 0; i < codecs.size(); ++i) add_up(std::span(tallies).subspan(i * count, count), matrices, results[i]);
  return results;
}

// Fewer than four layers a thread leave many threads idle at the end: encoding 10 layers of one codec at a time on 16
// threads took 13 s of 24.
size_t encoded_at_once(std::span<const CodecChoice> codecs, const std::vector<datasets::Matrix>& matrices) {
  const size_t threads = static_cast<size_t>(backends::cpu::Team::available_threads());
  const int64_t available = backends::cpu::available_memory_bytes() / 2;
  size_t count = 0;
  int64_t bytes = 0;
  for (const CodecChoice& one : codecs) {
    for (const datasets::Matrix& matrix : matrices) {
      const CodecChoice* const choice = one.of(matrix);
      const auto& bound = choice == nullptr ? nullptr : choice->entry->codec->max_stored_bytes;
      const auto raw = static_cast<int64_t>(matrix.elements.size());
      int64_t stored = 2 * raw;
      if (bound != nullptr)  // what it throws, it throws again when the layer is encoded
        guarded([&] { stored = bound(codecs::shape_in_bytes(matrix.view()), choice->settings); });
      bytes += raw + stored;
    }
    if (count > 0 && ((count + 1) * std::max<size_t>(1, matrices.size()) > 4 * threads || bytes > available)) break;
    ++count;
  }
  return count;
}

OutputCheck check_every_layer(backends::Pass& pass, backends::Op op, const Reference& reference) {
  const std::vector<datasets::Matrix>& matrices = *reference.matrices;
  const size_t layers = reference.layers();
  const bool decodes = op == backends::Op::decode;
  const bool two_rounds = decodes && std::any_of(matrices.begin(), matrices.end(), contains_poison);
  OutputCheck check;
  for (int round = 0; round < (two_rounds ? 2 : 1) && check.fine(); ++round) {
    if (!decodes) pass.poison_outputs(round);
    for (size_t layer = 0; layer < layers && check.outputs.empty(); ++layer) {
      if (decodes) pass.poison_outputs(round);
      pass.run_layer(static_cast<int>(layer));
      compare_layer(pass, op, reference, layer, check);
    }
    check.guards = pass.broken_guards();
  }
  return check;
}

OutputCheck check_probes(const PreparePass& prepare, backends::Device& device, backends::PassPlan plan,
                         const Reference& reference) {
  constexpr int kMostPasses = 4;
  const ReferenceProducts& probes = reference.floats->probes();
  const size_t layers = probes.batch == 0 ? 0 : reference.layers();
  OutputCheck check;
  const int passes = std::min((probes.batch + plan.batch - 1) / plan.batch, kMostPasses);
  for (int number = 0; number < passes && check.fine(); ++number) {
    std::vector<backends::ExactProduct> expected;
    plan.tokens.clear();
    for (size_t layer = 0; layer < layers; ++layer) {
      const size_t matrix = reference.matrix_of(layer);
      const auto cols = probes.layers[matrix].shape.cols;
      std::vector<int> chosen;
      std::vector<float>& tokens = plan.tokens.emplace_back();
      for (int token = 0; token < plan.batch; ++token) {
        chosen.push_back(
            static_cast<int>(((static_cast<int64_t>(layer) * passes + number) * plan.batch + token) % probes.batch));
        const auto first = probes.tokens[matrix].begin() + chosen.back() * cols;
        tokens.insert(tokens.end(), first, first + cols);
      }
      expected.push_back(backends::chosen_tokens(probes.layers[matrix], chosen));
    }
    const auto pass = prepare(device, plan);
    pass->poison_outputs(0);
    for (size_t layer = 0; layer < expected.size() && check.outputs.empty(); ++layer) {
      pass->run_layer(static_cast<int>(layer));
      compare_floats(*pass, expected[layer], layer, ", sparse tokens", check);
    }
    check.guards = pass->broken_guards();
  }
  return check;
}

OutputCheck check_extremes(const PreparePass& prepare, backends::Device& device, backends::PassPlan plan,
                           const Reference& reference) {
  Reference extreme = reference;
  extreme.chain = reference.chain->extremes;
  if (extreme.chain == nullptr) return {};
  plan.inputs = extreme.chain->inputs;
  plan.scales = extreme.chain->scales;
  OutputCheck check = check_every_layer(*prepare(device, plan), plan.op, extreme);
  if (!check.outputs.empty()) check.outputs = "extreme inputs, " + check.outputs;
  return check;
}

OutputCheck check_last_pass(backends::Pass& pass, backends::Op op, const Reference& reference, size_t layers) {
  OutputCheck check;
  for (size_t layer = op == backends::Op::decode && layers > 0 ? layers - 1 : 0;
       layer < layers && check.outputs.empty(); ++layer)
    compare_layer(pass, op, reference, layer, check);
  check.guards = pass.broken_guards();
  return check;
}

void set_inputs(backends::Pass& pass, backends::Op op, const Reference& reference, int batch) {
  if (op == backends::Op::matvec) {
    const std::vector<std::vector<int8_t>>& inputs = reference.chain->inputs;
    for (size_t i = 0; i < inputs.size(); ++i) pass.set_input(static_cast<int>(i), bytes_of(inputs[i]));
  } else if (op == backends::Op::matmul) {
    const std::vector<std::vector<float>> tokens = reference.floats->products().first_tokens(batch);
    for (size_t layer = 0; layer < reference.layers(); ++layer)
      pass.set_input(static_cast<int>(layer), bytes_of(tokens[reference.matrix_of(layer)]));
  }
}

Outcome check_result(const backends::Pass& pass, backends::Op op, const Reference& reference, int round) {
  const std::span<const std::byte> result = pass.result();
  const auto wrong = [](std::string_view what) {
    return Outcome{Status::incorrect, fmt::format("{} of a timed pass is wrong, though earlier ones were right", what)};
  };
  if (result.empty()) return {};
  if (op == backends::Op::matvec) {
    return std::ranges::equal(result, bytes_of(reference.chain->outputs.back())) ? Outcome{}
                                                                                 : wrong("the requantised vector");
  }
  if (op == backends::Op::matmul) {
    const auto* floats = reinterpret_cast<const float*>(result.data());
    const bool nan = std::any_of(floats, floats + result.size() / sizeof(float), [](float f) { return f != f; });
    return nan ? wrong("the product") : Outcome{};
  }
  const std::vector<std::byte>& expected = reference.matrices->back().elements;
  for (const int64_t first : {int64_t{0}, backends::first_mark(round, static_cast<int64_t>(result.size()))})
    for (auto at = static_cast<size_t>(first); at < result.size(); at += backends::kMarkStride)
      if (std::memcmp(result.data() + at, expected.data() + at,
                      std::min<size_t>(backends::kMarkBytes, result.size() - at)) != 0)
        return wrong("the decoded matrix");
  return {};
}

}  // namespace ecmv::experiments
