// Claims about the kinds of layers that names of tensors tell.
#include <catch2/catch_test_macros.hpp>

#include "datasets/layers/layer_kind.h"

using namespace ecmv::datasets;

TEST_CASE("layers are known by the names of Hugging Face, GGUF, BERT and other models") {
  const std::pair<const char*, LayerKind> names[] = {
      {"model.layers.0.self_attn.q_proj.weight", LayerKind::q},
      {"model.layers.11.self_attn.k_proj.weight", LayerKind::k},
      {"model.layers.0.self_attn.v_proj.weight", LayerKind::v},
      {"model.layers.0.self_attn.o_proj.weight", LayerKind::o},
      {"model.layers.0.self_attn.q_norm.weight", LayerKind::norm},
      {"model.layers.0.self_attn.q_proj.bias", LayerKind::bias},
      {"model.layers.0.mlp.gate_proj.weight", LayerKind::gate},
      {"model.layers.0.mlp.up_proj.weight", LayerKind::up},
      {"model.layers.0.mlp.down_proj.weight", LayerKind::down},
      {"model.layers.0.mlp.experts.3.down_proj.weight", LayerKind::down},
      {"model.layers.0.mlp.gate.weight", LayerKind::other},  // the router of experts
      {"model.layers.0.self_attn.qkv_proj.weight", LayerKind::qkv},
      {"model.layers.0.self_attn.q_a_proj.weight", LayerKind::q},  // of latent attention
      {"model.layers.0.self_attn.q_b_proj.weight", LayerKind::q},
      {"model.layers.0.self_attn.kv_a_proj_with_mqa.weight", LayerKind::k},
      {"model.layers.0.self_attn.kv_b_proj.weight", LayerKind::v},
      {"model.layers.0.self_attn.kv_a_layernorm.weight", LayerKind::norm},
      {"blk.0.attn_kv_a_mqa.weight", LayerKind::k},
      {"model.layers.0.mlp.up_proj.scale_weight", LayerKind::scale},
      {"model.layers.0.mlp.gate_up_proj.weight", LayerKind::gate_up},
      {"model.layers.0.input_layernorm.weight", LayerKind::norm},
      {"model.embed_tokens.weight", LayerKind::embedding},
      {"lm_head.weight", LayerKind::lm_head},
      {"model.norm.weight", LayerKind::norm},
      {"model.layers.0.self_attn.q_proj.weight_scale_inv", LayerKind::scale},
      {"model.layers.0.self_attn.q_proj.qzeros", LayerKind::scale},
      {"model.layers.0.self_attn.q_proj.qweight", LayerKind::q},
      {"model.layers.0.self_attn.q_proj.weight_packed", LayerKind::q},
      {"model.layers.0.mlp.experts.gate_up_proj_blocks", LayerKind::gate_up},
      {"model.layers.0.mlp.experts.gate_up_proj_scales", LayerKind::scale},
      {"model.layers.0.self_attn.k_scale", LayerKind::scale},
      {"blk.0.attn_q.weight", LayerKind::q},
      {"blk.0.attn_k.weight", LayerKind::k},
      {"blk.0.attn_v.weight", LayerKind::v},
      {"blk.0.attn_output.weight", LayerKind::o},
      {"blk.0.ffn_gate.weight", LayerKind::gate},
      {"blk.0.ffn_up.weight", LayerKind::up},
      {"blk.0.ffn_down.weight", LayerKind::down},
      {"blk.0.ffn_norm.weight", LayerKind::norm},
      {"token_embd.weight", LayerKind::embedding},
      {"output.weight", LayerKind::lm_head},
      {"output_norm.weight", LayerKind::norm},
      {"encoder.layer.0.attention.self.query.weight", LayerKind::q},
      {"encoder.layer.0.attention.self.key.weight", LayerKind::k},
      {"encoder.layer.0.attention.self.value.weight", LayerKind::v},
      {"encoder.layer.0.attention.self.value.bias", LayerKind::bias},
      {"encoder.layer.0.attention.output.dense.weight", LayerKind::o},
      {"encoder.layer.0.attention.output.LayerNorm.weight", LayerKind::norm},
      {"encoder.layer.0.intermediate.dense.weight", LayerKind::up},
      {"encoder.layer.0.output.dense.weight", LayerKind::down},
      {"embeddings.word_embeddings.weight", LayerKind::embedding},
      {"pooler.dense.weight", LayerKind::other},
      {"h.0.attn.c_attn.weight", LayerKind::qkv},
      {"h.0.attn.c_proj.weight", LayerKind::o},
      {"h.0.mlp.c_fc.weight", LayerKind::up},
      {"h.0.mlp.c_proj.weight", LayerKind::down},
      {"wte.weight", LayerKind::embedding},
      {"layers.0.attention.wo.weight", LayerKind::o},
      {"layers.0.feed_forward.w2.weight", LayerKind::down},
      {"/model/layers.0/attn/q_proj/MatMul.weight", LayerKind::q},
      {"onnx::MatMul_7", LayerKind::other},
      {"", LayerKind::other}};
  for (const auto& [name, kind] : names) {
    INFO(name);
    CHECK(layer_kind_name(layer_kind(name)) == layer_kind_name(kind));
  }
}

TEST_CASE("encoders of images and sound, and what joins them to a language model, are known by their names") {
  for (const char* name :
       {"vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight", "visual.blocks.0.attn.qkv.weight",
        "model.vision_model.layers.0.fc1.weight", "multi_modal_projector.linear_1.weight", "v.blk.0.attn_q.weight",
        "mm.0.weight", "audio_tower.layers.0.fc1.weight", "model.connector.proj.weight"})
    CHECK(is_of_encoder(name));
  for (const char* name : {"language_model.model.layers.0.self_attn.q_proj.weight", "blk.0.attn_v.weight",
                           "model.layers.0.self_attn.v_proj.weight", "model.layers.0.supervision.weight"})
    CHECK(!is_of_encoder(name));
}
