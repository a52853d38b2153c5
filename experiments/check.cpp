// See check.h.
#include "experiments/check.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>

#include <fmt/format.h>

#include "backends/cpu/team.h"

namespace ecmv::experiments {
namespace {

template <typename T>
std::string first_difference(std::span<const T> got, std::span<const T> expected, int64_t cols, std::string_view what, size_t layer) {
  if (got.size() != expected.size())
    return fmt::format("layer {}: {} has {} elements instead of {}", layer, what, got.size(), expected.size());
  const auto [g, e] = std::mismatch(got.begin(), got.end(), expected.begin());
  if (g == got.end()) return {};
  const int64_t index = g - got.begin();
  const auto differing = std::inner_product(got.begin(), got.end(), expected.begin(), int64_t{0}, std::plus<>(), std::not_equal_to<>());
  return fmt::format("layer {}: {} differs at row {}, column {} (got {}, expected {}; {} of {} elements differ)", layer, what,
                     index / cols, index % cols, *g, *e, differing, got.size());
}

// Bytes of one row; elements wider than a byte are compared byte for byte.
int64_t row_bytes(const datasets::Matrix& matrix) { return std::max<int64_t>(1, codecs::shape_in_bytes(matrix.view()).cols); }

std::string compare_decoded(backends::Pass& pass, const datasets::Matrix& matrix, size_t layer) {
  return first_difference<int8_t>(pass.decoded(), matrix.view().i8(), row_bytes(matrix), "the decoded matrix", layer);
}

std::string compare_product(backends::Pass& pass, const ReferenceChain& chain, size_t layer) {
  std::string difference = first_difference<int32_t>(pass.accumulators(static_cast<int>(layer)), chain.accumulators[layer], 1, "W x", layer);
  if (difference.empty())
    difference = first_difference<int8_t>(pass.outputs(static_cast<int>(layer)), chain.outputs[layer], 1, "the requantised vector", layer);
  return difference;
}

backends::ProductRounding rounding_of(const backends::PassPlan& plan, size_t layer) {
  const bool fused = plan.kernel != nullptr && plan.kernel->op == backends::Op::matmul;
  return fused && plan.kernel->rounding != nullptr ? plan.kernel->rounding(plan.layers[layer]->view(), plan.tuning) : backends::ProductRounding{};
}

void compare_layer(backends::Pass& pass, const backends::PassPlan& plan, const Reference& reference, size_t layer, OutputCheck& check) {
  if (plan.op == backends::Op::decode) {
    check.outputs = compare_decoded(pass, (*reference.matrices)[layer], layer);
  } else if (plan.op == backends::Op::matvec) {
    check.outputs = compare_product(pass, *reference.chain, layer);
  } else {
    const backends::ProductCheck product = backends::check_product(pass.products(static_cast<int>(layer)), reference.products->layers[layer], rounding_of(plan, layer));
    if (!product.violation.empty()) check.outputs = fmt::format("layer {}: {}", layer, product.violation);
    check.bound_used = std::max(check.bound_used, product.used);
  }
}

bool contains_poison(const datasets::Matrix& matrix) {
  const auto elements = matrix.view().i8();
  return std::find(elements.begin(), elements.end(), int8_t{-128}) != elements.end();
}

// What one codec's layers add up to, kept by the threads that encode them.
struct Tally {
  std::mutex mutex;
  double elements = 0, ideal_bits = 0, bound_used = 0;
  codecs::ErrorBound widest;  // of the layers' bounds
};

// One layer: encode, decode by the reference, compare.
void encode_layer(const codecs::CodecEntry& entry, const datasets::Matrix& matrix, const codecs::Settings& settings, size_t layer,
                  EncodedLayers& result, Tally& tally) {
  const auto note = [&](std::string& field, const std::string& message) {
    const std::scoped_lock lock(tally.mutex);
    if (field.empty()) field = message;
  };
  try {
    const std::string refused = entry.codec->refuses == nullptr ? "" : entry.codec->refuses(matrix.view(), settings);
    if (!refused.empty()) return note(result.refused, refused);
    codecs::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
    std::vector<std::byte> decoded(matrix.elements.size(), std::byte{0x80});
    entry.codec->decode(compressed.view(), decoded);
    const bool lossy = !entry.codec->lossless && entry.codec->error_bound != nullptr;
    const codecs::ErrorBound allowed = lossy ? entry.codec->error_bound(matrix.view(), settings) : codecs::ErrorBound{};
    codecs::BoundCheck kept;
    if (!allowed.exact()) {
      kept = codecs::check_bound(matrix.view(), decoded, allowed);
      if (!kept.violation.empty()) note(result.incorrect, fmt::format("layer {}: {}", layer, kept.violation));
    } else if (decoded != matrix.elements) {
      const auto* got = reinterpret_cast<const int8_t*>(decoded.data());
      note(result.incorrect, first_difference<int8_t>({got, decoded.size()}, matrix.view().i8(), row_bytes(matrix), "the reference decode", layer));
    }
    const auto elements = static_cast<double>(matrix.shape.elements());
    const double ideal = entry.codec->ideal_bits_per_element == nullptr ? reports::kUnknown : entry.codec->ideal_bits_per_element(matrix.view(), settings);
    {
      const std::scoped_lock lock(tally.mutex);
      tally.elements += elements;
      tally.ideal_bits += elements > 0 ? elements * ideal : 0;
      tally.bound_used = std::max(tally.bound_used, kept.used);
      tally.widest.relative = std::max(tally.widest.relative, allowed.relative);
      tally.widest.absolute = std::max(tally.widest.absolute, allowed.absolute);
    }
    if (entry.codec->max_stored_bytes != nullptr) {
      const int64_t bound = entry.codec->max_stored_bytes(codecs::shape_in_bytes(matrix.view()), settings);
      if (compressed.stored_bytes() > bound)
        note(result.incorrect, fmt::format("layer {}: {} bytes are stored, more than the declared bound of {}", layer,
                                           compressed.stored_bytes(), bound));
    }
    result.layers[layer] = std::move(compressed);
    if (lossy) (*result.decoded)[layer] = {matrix.name, matrix.shape, matrix.type, std::move(decoded), {}, 0};
  } catch (const std::exception& e) {
    note(result.error, fmt::format("layer {}: {}", layer, e.what()));
  }
}

}  // namespace

std::vector<EncodedLayers> encode_and_check(std::span<const CodecChoice> codecs, const std::vector<datasets::Matrix>& matrices) {
  std::vector<EncodedLayers> results(codecs.size());
  std::vector<Tally> tallies(codecs.size());
  for (size_t i = 0; i < codecs.size(); ++i) {
    results[i].layers.resize(matrices.size());
    if (!codecs[i].entry->codec->lossless) results[i].decoded = std::make_shared<std::vector<datasets::Matrix>>(matrices.size());
  }
  std::atomic<size_t> next = 0;
  backends::cpu::Team(backends::cpu::Team::available_threads()).run([&](int) {
    for (size_t task = next++; task < codecs.size() * matrices.size(); task = next++) {
      const size_t codec = task / matrices.size(), layer = task % matrices.size();
      encode_layer(*codecs[codec].entry, matrices[layer], codecs[codec].settings, layer, results[codec], tallies[codec]);
    }
  });
  for (size_t i = 0; i < codecs.size(); ++i) {
    const Tally& tally = tallies[i];
    if (tally.elements > 0) results[i].ideal_bits_per_element = tally.ideal_bits / tally.elements;
    if (!tally.widest.exact())
      results[i].decode = fmt::format("within its bound, relative {:.4g} or absolute {:.4g}; the largest error is {:.3g} of it", tally.widest.relative,
                                      tally.widest.absolute, tally.bound_used);
    if (tally.widest.exact()) results[i].decoded.reset();
  }
  return results;
}

OutputCheck check_every_layer(backends::Pass& pass, const backends::PassPlan& plan, const Reference& reference) {
  const std::vector<datasets::Matrix>& matrices = *reference.matrices;
  const bool decodes = plan.op == backends::Op::decode;
  const bool two_rounds = decodes && std::any_of(matrices.begin(), matrices.end(), contains_poison);
  OutputCheck check;
  for (int round = 0; round < (two_rounds ? 2 : 1) && check.fine(); ++round) {
    if (!decodes) pass.poison_outputs(round);
    for (size_t layer = 0; layer < matrices.size() && check.outputs.empty(); ++layer) {
      if (decodes) pass.poison_outputs(round);
      pass.run_layer(static_cast<int>(layer));
      compare_layer(pass, plan, reference, layer, check);
    }
    check.guards = pass.broken_guards();
  }
  return check;
}

OutputCheck check_probes(backends::Device& device, backends::PassPlan plan, const ReferenceProducts& probes) {
  constexpr int kMostPasses = 4;
  OutputCheck check;
  const int passes = std::min((probes.batch + plan.batch - 1) / plan.batch, kMostPasses);
  for (int number = 0; number < passes && check.fine(); ++number) {
    std::vector<backends::ExactProduct> expected;
    plan.tokens.clear();
    for (size_t layer = 0; layer < probes.layers.size(); ++layer) {
      const auto cols = probes.layers[layer].shape.cols;
      std::vector<int> chosen;
      std::vector<float>& tokens = plan.tokens.emplace_back();
      for (int token = 0; token < plan.batch; ++token) {
        chosen.push_back(static_cast<int>(((static_cast<int64_t>(layer) * passes + number) * plan.batch + token) % probes.batch));
        const auto first = probes.tokens[layer].begin() + chosen.back() * cols;
        tokens.insert(tokens.end(), first, first + cols);
      }
      expected.push_back(backends::chosen_tokens(probes.layers[layer], chosen));
    }
    const auto pass = device.prepare(plan);
    pass->poison_outputs(0);
    for (size_t layer = 0; layer < expected.size() && check.outputs.empty(); ++layer) {
      pass->run_layer(static_cast<int>(layer));
      const backends::ProductCheck product = backends::check_product(pass->products(static_cast<int>(layer)), expected[layer], rounding_of(plan, layer));
      if (!product.violation.empty()) check.outputs = fmt::format("layer {}, sparse tokens: {}", layer, product.violation);
      check.bound_used = std::max(check.bound_used, product.used);
    }
    check.guards = pass->broken_guards();
  }
  return check;
}

OutputCheck check_last_pass(backends::Pass& pass, const backends::PassPlan& plan, const Reference& reference) {
  OutputCheck check;
  const size_t layers = reference.matrices->size();
  // Of decoding only the layer that ran last is left.
  for (size_t layer = plan.op == backends::Op::decode && layers > 0 ? layers - 1 : 0; layer < layers && check.outputs.empty(); ++layer)
    compare_layer(pass, plan, reference, layer, check);
  check.guards = pass.broken_guards();
  return check;
}

}  // namespace ecmv::experiments
