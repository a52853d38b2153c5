// What a tensor does in a language model, by its name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ecmv::datasets {

// In the order of tables.
enum class LayerKind : uint8_t { q, k, v, qkv, o, gate, up, gate_up, down, embedding, lm_head, norm, bias, other };

std::string_view layer_kind_name(LayerKind kind);

// By the conventions of Hugging Face ("model.layers.0.self_attn.q_proj.weight"), GGUF ("blk.0.attn_q.weight"), BERT
// ("encoder.layer.0.attention.self.query.weight") and the original checkpoints of Llama
// ("layers.0.attention.wq.weight").
LayerKind layer_kind(const std::string& name);

// The number of the block that a layer is part of: the first part of its name that is one. -1 without.
int64_t layer_block(const std::string& name);

}  // namespace ecmv::datasets
