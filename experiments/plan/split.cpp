// See split.h.
#include "experiments/plan/split.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "backends/ranks.h"
#include "datasets/layers/layer_kind.h"

namespace ecmv::experiments {
namespace {

using backends::Refused;
using backends::Split;

// The number of pieces of kColsOfPart.
int64_t pieces_of(int64_t count) { return (count + kColsOfPart - 1) / kColsOfPart; }

// Where parts of whole pieces begin; equal counts are cut at the same places.
std::vector<int64_t> cut_in_pieces(int64_t count, int ranks) {
  std::vector<int64_t> begins;
  for (int rank = 0; rank <= ranks; ++rank)
    begins.push_back(std::min(count, pieces_of(count) * rank / ranks * kColsOfPart));
  return begins;
}

std::vector<int64_t> cut_anywhere(int64_t count, int ranks) {
  std::vector<int64_t> begins;
  for (int rank = 0; rank <= ranks; ++rank) begins.push_back(backends::first_row_of_rank(count, rank, ranks));
  return begins;
}

// A layer's role in its block: which pair it may belong to, as first or second.
enum class Pair { none, attention, mlp };
std::pair<Pair, bool> place_in_block(datasets::LayerKind kind) {
  using enum datasets::LayerKind;
  switch (kind) {
    case q:
    case k:
    case v:
    case qkv: return {Pair::attention, true};
    case o: return {Pair::attention, false};
    case gate:
    case up:
    case gate_up: return {Pair::mlp, true};
    case down: return {Pair::mlp, false};
    case embedding:
    case lm_head:
    case norm:
    case scale:
    case bias:
    case other: break;
  }
  return {Pair::none, false};
}

std::vector<Split> pairs_of_step(const std::vector<datasets::Matrix>& layers) {
  std::map<std::pair<int64_t, Pair>, std::pair<bool, bool>> there;  // by block and pair: the first, the second
  const auto key_of = [](const datasets::Matrix& layer, Pair pair) {
    return std::pair(datasets::layer_block(layer.name), pair);
  };
  for (const datasets::Matrix& layer : layers)
    if (const auto [pair, first] = place_in_block(datasets::layer_kind(layer.name)); pair != Pair::none)
      (first ? there[key_of(layer, pair)].first : there[key_of(layer, pair)].second) = true;
  std::vector<Split> splits;
  for (const datasets::Matrix& layer : layers) {
    const auto [pair, first] = place_in_block(datasets::layer_kind(layer.name));
    const auto known = there.find(key_of(layer, pair));
    const bool whole = known != there.end() && known->second.first && known->second.second;
    splits.push_back(!whole ? Split::rows_gathered : first ? Split::rows_kept : Split::cols);
  }
  if (std::ranges::find(splits, Split::cols) == splits.end())
    throw Refused(
        "Nothing here is split in pairs: no names of layers tell of q, k, v with an o, or of gate, up with a down, in "
        "one block.");
  return splits;
}

std::vector<Split> pairs_in_order(const std::vector<datasets::Matrix>& layers) {
  if (layers.size() < 2) throw Refused("A single layer cannot be split in pairs.");
  std::vector<Split> splits(layers.size(), Split::rows_gathered);
  for (size_t i = 0; i + 1 < layers.size(); i += 2) {
    if (layers[i].shape.rows != layers[i + 1].shape.cols)
      throw Refused(fmt::format(
          "Layers {} and {} are no pair: the second has {} columns, and the first gives vectors of {} numbers.", i,
          i + 1, layers[i + 1].shape.cols, layers[i].shape.rows));
    splits[i] = Split::rows_kept;
    splits[i + 1] = Split::cols;
  }
  return splits;
}

datasets::Matrix part_of(const datasets::Matrix& layer, bool by_cols, int64_t begin, int64_t end) {
  const int64_t bytes = datasets::element_bytes(layer.type), row_bytes = layer.shape.cols * bytes;
  datasets::Matrix part;
  part.name = layer.name;
  part.type = layer.type;
  const auto elements = layer.elements.begin();
  if (by_cols) {
    part.shape = {layer.shape.rows, end - begin};
    part.elements.reserve(static_cast<size_t>(part.shape.elements() * bytes));
    for (int64_t row = 0; row < layer.shape.rows; ++row)
      part.elements.insert(part.elements.end(), elements + row * row_bytes + begin * bytes,
                           elements + row * row_bytes + end * bytes);
  } else {
    part.shape = {end - begin, layer.shape.cols};
    part.elements.assign(elements + begin * row_bytes, elements + end * row_bytes);
  }
  part.content_hash = datasets::content_hash(part.view());
  return part;
}

}  // namespace

std::string why_no_pairs(const KernelSpec& kernel) {
  if (!kernel.pairs || kernel.takes_tokens()) return {};
  return "Pairs are for float products: a vector of int8 is requantised from whole sums, and a layer by columns gives "
         "each rank a part of every sum.";
}

std::vector<LayerSplit> split_layers(const std::vector<datasets::Matrix>& layers, const KernelSpec& kernel) {
  const int ranks = kernel.ranks;
  if (const std::string reason = why_no_pairs(kernel); !reason.empty()) throw Refused(reason);
  std::vector<Split> pairs(layers.size(), Split::rows_gathered);
  if (kernel.pairs) pairs = kernel.task == Task::step ? pairs_of_step(layers) : pairs_in_order(layers);
  std::vector<LayerSplit> splits;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto [rows, cols] = layers[i].shape;
    if (pairs[i] == Split::cols && pieces_of(cols) < ranks)
      throw Refused(fmt::format("{} columns of a layer are too few for {} ranks: their parts begin at multiples of {}.",
                                cols, ranks, kColsOfPart));
    const bool in_pieces = pairs[i] == Split::cols || (pairs[i] == Split::rows_kept && pieces_of(rows) >= ranks);
    const int64_t count = pairs[i] == Split::cols ? cols : rows;
    splits.push_back({pairs[i], in_pieces ? cut_in_pieces(count, ranks) : cut_anywhere(count, ranks)});
  }
  return splits;
}

std::vector<datasets::Matrix> parts_of(const std::vector<datasets::Matrix>& layers,
                                       const std::vector<LayerSplit>& splits) {
  std::vector<datasets::Matrix> parts;
  for (size_t i = 0; i < layers.size(); ++i)
    for (size_t rank = 0; rank + 1 < splits[i].begins.size(); ++rank)
      parts.push_back(
          part_of(layers[i], splits[i].how == Split::cols, splits[i].begins[rank], splits[i].begins[rank + 1]));
  return parts;
}

ExchangedBytes exchanged_after(const LayerSplit& split, int64_t bytes) {
  switch (split.how) {
    case Split::rows_gathered: return {.gathered = bytes, .exchanges = 1};
    case Split::cols: return {.reduced = bytes, .exchanges = 1};
    case Split::rows_kept: break;
  }
  return {};
}

}  // namespace ecmv::experiments
