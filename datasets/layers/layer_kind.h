// The role of a tensor in a language model, by its name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ecmv::datasets {

// This is the order of tables. `scale`: scales, zero points and the like of quantised weights.
enum class LayerKind : char { q, k, v, qkv, o, gate, up, gate_up, down, embedding, lm_head, norm, bias, scale, other };

std::string_view layer_kind_name(LayerKind kind);

// Knows the conventions of Hugging Face ("model.layers.0.self_attn.q_proj.weight"), GGUF ("blk.0.attn_q.weight"), BERT
// ("encoder.layer.0.attention.self.query.weight") and the original checkpoints of Llama
// ("layers.0.attention.wq.weight").
LayerKind layer_kind(const std::string& name);

// Whether the name is of a part of a model that reads images, sound or the like, or of what joins it to the language
// model: its layers are no part of a decoding step.
bool is_of_encoder(const std::string& name);

// The number of the layer's block: the first part of the name that is a number; -1 if there is none.
int64_t layer_block(const std::string& name);

}  // namespace ecmv::datasets
