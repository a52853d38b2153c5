// Tier 1 (check.h).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <random>

#include <fmt/format.h>

#include "backends/cpu/memory_limits.h"
#include "backends/cpu/team.h"
#include "codecs/guarded_output.h"
#include "experiments/check/check.h"
#include "experiments/check/encoding/fresh_decoder.h"
#include "experiments/check/encoding/ideal_bits.h"
#include "experiments/check/first_difference.h"

namespace ecmv::experiments {
namespace {

using reports::Status;

// One layer's contribution to the record of its codec.
struct LayerTally {
  Outcome outcome;
  double elements = 0, ideal_bits = 0, bound_used = 0;
  codecs::ErrorBound allowed;
};

constexpr int64_t kSmall = int64_t{4} << 20;  // elements

// Layers that are encoded and decoded twice: one of each codec, drawn from the small ones.
std::vector<bool> draw_layers(const CodecChoice& codec, const std::vector<datasets::Matrix>& matrices) {
  static std::minstd_rand random(std::random_device{}());
  std::map<const CodecChoice*, int64_t> fewest;
  for (const datasets::Matrix& matrix : matrices)
    if (const auto [of, is_new] = fewest.try_emplace(codec.of(matrix), matrix.shape.elements()); !is_new)
      of->second = std::min(of->second, matrix.shape.elements());
  std::vector<bool> drawn(matrices.size());
  for (const auto& [choice, elements] : fewest) {
    std::vector<size_t> small;
    for (size_t i = 0; i < matrices.size(); ++i)
      if (codec.of(matrices[i]) == choice && matrices[i].shape.elements() <= std::max(elements, kSmall))
        small.push_back(i);
    drawn[small[random() % small.size()]] = true;
  }
  return drawn;
}

bool same_sections(const backends::CompressedMatrix& one, const backends::CompressedMatrix& other) {
  return std::ranges::equal(one.sections, other.sections, [](const auto& a, const auto& b) {
    return a.name == b.name && a.role == b.role && a.padding_bytes == b.padding_bytes && a.bytes == b.bytes;
  });
}

// What a codec says of the matrix: ideal bits and the bound of the size.
Outcome check_claims(const CodecChoice& choice, const datasets::Matrix& matrix, std::span<const std::byte> decoded,
                     const backends::CompressedMatrix& compressed, size_t layer, LayerTally& tally) {
  const codecs::Codec& codec = *choice.entry->codec;
  tally.elements = static_cast<double>(matrix.shape.elements());
  double ideal = reports::kUnknown;
  if (codec.ideal_bits_per_element != nullptr) {
    ideal = codec.ideal_bits_per_element(matrix.view(), choice.settings);
    const std::string absurd = why_not_ideal(ideal, {matrix.shape, matrix.type, decoded}, compressed.stored_bytes());
    if (!absurd.empty())
      return {Status::incorrect, fmt::format("layer {}: the codec '{}' {}", layer, choice.entry->id, absurd)};
  }
  tally.ideal_bits = tally.elements > 0 ? tally.elements * ideal : 0;
  const int64_t bound = codec.max_stored_bytes(codecs::shape_in_bytes(matrix.view()), choice.settings);
  if (compressed.stored_bytes() > bound)
    return {Status::incorrect, fmt::format("layer {}: {} bytes are stored, more than the declared bound of {}", layer,
                                           compressed.stored_bytes(), bound)};
  return {};
}

// Some rows of a large matrix, about kSmall elements, because what follows takes as long as encoding and decoding.
datasets::MatrixView some_rows(const datasets::MatrixView& matrix, const codecs::Codec& codec,
                               const codecs::Settings& settings) {
  static std::minstd_rand random(std::random_device{}());
  static std::mutex mutex;
  const int64_t count = (kSmall / std::max<int64_t>(1, matrix.shape.cols) + 64) / 64 * 64;
  if (count >= matrix.shape.rows || matrix.elements.size() % static_cast<size_t>(matrix.shape.rows) != 0) return matrix;
  const std::scoped_lock lock(mutex);
  const auto row_bytes = static_cast<int64_t>(matrix.elements.size()) / matrix.shape.rows,
             first = static_cast<int64_t>(random()) % (matrix.shape.rows - count + 1);
  datasets::MatrixView part = matrix;
  part.shape.rows = count;
  part.elements =
      matrix.elements.subspan(static_cast<size_t>(first * row_bytes), static_cast<size_t>(count * row_bytes));
  return codec.refuses == nullptr || codec.refuses(part, settings).empty() ? part : matrix;
}

// The same matrix gives the same bytes, and they alone give the matrix.
Outcome encode_again(const CodecChoice& choice, const datasets::MatrixView& matrix, FreshDecoder& fresh, size_t layer) {
  const codecs::Codec& codec = *choice.entry->codec;
  const datasets::MatrixView part = some_rows(matrix, codec, choice.settings);
  const auto begun = std::chrono::steady_clock::now();
  const backends::CompressedMatrix one = codecs::encode_matrix(*choice.entry, part, choice.settings);
  if (!same_sections(one, codecs::encode_matrix(*choice.entry, part, choice.settings)))
    return {Status::incorrect,
            fmt::format("layer {}: the codec encodes the same matrix a second time to other bytes", layer)};
  if (codec.unavailable != nullptr) return {};  // what it opened may not work in another process
  std::vector<std::byte> decoded(part.elements.size());
  codec.decode(one.view(), decoded);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
  const std::string difference = fresh.difference(codec, one, decoded, taken.count());
  if (difference.empty()) return {};
  return {Status::incorrect, fmt::format("layer {}: the stored bytes alone are not the matrix: {}", layer, difference)};
}

// One layer: encode, decode by the reference, compare. The codec gets a copy of its own, since other codecs and the
// references need the matrix as it is.
Outcome encode_layer(const CodecChoice& codec_or_mix, const datasets::Matrix& matrix, size_t layer, FreshDecoder* fresh,
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
  if (Outcome outcome = check_claims(choice, copy, decoded, compressed, layer, tally); !outcome.fine()) return outcome;
  if (copy.elements != matrix.elements)
    return {Status::error, fmt::format("the codec '{}' changed the matrix that it was asked about", choice.entry->id)};
  if (fresh != nullptr)
    if (Outcome outcome = encode_again(choice, copy.view(), *fresh, layer); !outcome.fine()) return outcome;
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
  std::vector<bool> twice;  // [codecs][layers]
  for (const CodecChoice& codec : codecs) std::ranges::copy(draw_layers(codec, matrices), std::back_inserter(twice));
  std::optional<FreshDecoder> own;
  FreshDecoder& fresh = FreshDecoder::current() != nullptr ? *FreshDecoder::current() : own.emplace();
  std::atomic<size_t> next = 0;
  const int threads = backends::cpu::Team::available_threads(),
            together = static_cast<int>(std::clamp<size_t>(tallies.size(), 1, static_cast<size_t>(threads)));
  backends::cpu::Team(together).run([&](int, int of) {
    backends::cpu::Team::use_threads_inside(threads / of);
    for (size_t task = next++; task < tallies.size() && !interrupted(); task = next++) {
      const size_t codec = task / count, layer = task % count;
      Outcome& outcome = tallies[task].outcome;
      outcome = guarded([&] {
        return encode_layer(codecs[codec], matrices[layer], layer, twice[task] ? &fresh : nullptr, results[codec],
                            tallies[task]);
      });
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

}  // namespace ecmv::experiments
