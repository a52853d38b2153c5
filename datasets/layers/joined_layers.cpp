#include "datasets/layers/joined_layers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "datasets/layers/layer_kind.h"

namespace ecmv::datasets {
namespace {

constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"q_proj", "qkv_proj"},
                                                                    {"attn_q", "attn_qkv"},
                                                                    {"query", "qkv"},
                                                                    {"wq", "wqkv"},
                                                                    {"to_q", "to_qkv"},
                                                                    {"gate_proj", "gate_up_proj"},
                                                                    {"ffn_gate", "gate_up_proj"},
                                                                    {"w1", "gate_up_proj"}};

// The name of joined layers; empty if none is known.
std::string joined_name(const std::string& first, LayerKind kind) {
  for (const auto& [part, whole] : kNames) {
    const size_t at = first.find(part);
    if (at == std::string::npos) continue;
    std::string name = first;
    name.replace(at, part.size(), whole);
    if (layer_kind(name) == kind) return name;
  }
  return "";
}

// The number of layers from `first` on that are joined, and their kind together; 1 if they stay apart.
std::pair<size_t, LayerKind> group_at(const std::vector<Matrix>& layers, size_t first) {
  using enum LayerKind;
  const auto follow = [&](std::initializer_list<LayerKind> kinds) {
    if (layers.size() - first < kinds.size()) return false;
    return std::all_of(kinds.begin(), kinds.end(), [&, i = first](LayerKind kind) mutable {
      const Matrix &layer = layers[i++], &before = layers[first];
      return layer_kind(layer.name) == kind && layer_block(layer.name) == layer_block(before.name) &&
             layer.type == before.type && layer.shape.cols == before.shape.cols;
    });
  };
  if (follow({q, k, v})) return {3, qkv};
  if (follow({gate, up})) return {2, gate_up};
  return {1, other};
}

}  // namespace

void join_layers(Dataset& dataset) {
  if (!dataset.scales.empty()) throw DatasetError(kScalesAreNotJoined);
  std::vector<Matrix> joined;
  for (size_t first = 0; first < dataset.layers.size();) {
    auto [count, kind] = group_at(dataset.layers, first);
    Matrix matrix = std::move(dataset.layers[first]);
    const std::string name = count > 1 ? joined_name(matrix.name, kind) : "";
    if (name.empty()) count = 1;
    for (size_t i = first + 1; i < first + count; ++i) {
      Matrix& next = dataset.layers[i];
      matrix.shape.rows += next.shape.rows;
      matrix.elements.insert(matrix.elements.end(), next.elements.begin(), next.elements.end());
      next = {};
    }
    if (count > 1) {
      matrix.name = name;
      matrix.content_hash = content_hash(matrix.view());
    }
    joined.push_back(std::move(matrix));
    first += count;
  }
  dataset.layers = std::move(joined);
}

}  // namespace ecmv::datasets
