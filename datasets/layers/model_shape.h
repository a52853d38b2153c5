// The shape of a language model of the Llama kind: the numbers of its config.json that decide which matrices a decoding
// step multiplies.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/layers/layer_kind.h"
#include "datasets/matrix.h"

namespace ecmv::datasets {

struct ModelShape {
  int64_t hidden = 0, intermediate = 0, blocks = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
};

// One linear layer, under the name that Hugging Face gives it.
struct LinearLayer {
  std::string name;
  LayerKind kind = LayerKind::other;
  Shape shape;  // [outputs, inputs]
};

// The layers of one decoding step, in its order: q, k, v, o, gate, up and down of every block, then lm_head (the
// embedding's matrix in models that tie the two). `blocks` is how many blocks to take, 0 for all.
std::vector<LinearLayer> linear_layers(const ModelShape& model, int64_t blocks);

struct NamedModelShape {
  std::string_view name;
  ModelShape shape;
};
std::span<const NamedModelShape> named_model_shapes();

// Reads the text of a config.json; of a nested one the language model's part. Throws DatasetError for bad JSON, and for
// sizes that are missing, are no positive integers or do not fit a model.
ModelShape parse_model_config(std::string_view text);

// Whether a config.json lets the embedding's matrix serve as a missing lm_head: yes, unless it says otherwise, first
// for the language model by itself. Throws DatasetError for bad JSON.
bool ties_embeddings(std::string_view text);

// Columns that share a scale, as the "quantization" of a config.json has them: of a layer by its name without
// ".weight", and "" for all others.
using QuantisedGroups = std::map<std::string, int64_t>;

// Nothing where it says none. Throws DatasetError for bad JSON.
QuantisedGroups quantised_groups(std::string_view text);

}  // namespace ecmv::datasets
