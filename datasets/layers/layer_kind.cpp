// See layer_kind.h. A name is split at dots and slashes; the last known part decides.
#include "datasets/layers/layer_kind.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>
#include <vector>

#include "datasets/layers/quantised_weights.h"

namespace ecmv::datasets {
namespace {

using Kind = LayerKind;

constexpr std::string_view kKindNames[] = {"q",    "k",         "v",       "qkv",  "o",    "gate",  "up",   "gate_up",
                                           "down", "embedding", "lm_head", "norm", "bias", "scale", "other"};

constexpr std::pair<std::string_view, LayerKind> kKindOfPart[] = {{"q_proj", Kind::q},
                                                                  {"attn_q", Kind::q},
                                                                  {"query", Kind::q},
                                                                  {"query_proj", Kind::q},
                                                                  {"wq", Kind::q},
                                                                  {"q_lin", Kind::q},
                                                                  {"to_q", Kind::q},
                                                                  {"q", Kind::q},
                                                                  {"q_a_proj", Kind::q},
                                                                  {"q_b_proj", Kind::q},
                                                                  {"attn_q_a", Kind::q},
                                                                  {"attn_q_b", Kind::q},
                                                                  {"kv_a_proj_with_mqa", Kind::k},
                                                                  {"attn_kv_a_mqa", Kind::k},
                                                                  {"attn_k_b", Kind::k},
                                                                  {"kv_b_proj", Kind::v},
                                                                  {"attn_kv_b", Kind::v},
                                                                  {"attn_v_b", Kind::v},
                                                                  {"k_proj", Kind::k},
                                                                  {"attn_k", Kind::k},
                                                                  {"key", Kind::k},
                                                                  {"key_proj", Kind::k},
                                                                  {"wk", Kind::k},
                                                                  {"k_lin", Kind::k},
                                                                  {"to_k", Kind::k},
                                                                  {"k", Kind::k},
                                                                  {"v_proj", Kind::v},
                                                                  {"attn_v", Kind::v},
                                                                  {"value", Kind::v},
                                                                  {"value_proj", Kind::v},
                                                                  {"wv", Kind::v},
                                                                  {"v_lin", Kind::v},
                                                                  {"to_v", Kind::v},
                                                                  {"v", Kind::v},
                                                                  {"qkv_proj", Kind::qkv},
                                                                  {"attn_qkv", Kind::qkv},
                                                                  {"query_key_value", Kind::qkv},
                                                                  {"c_attn", Kind::qkv},
                                                                  {"wqkv", Kind::qkv},
                                                                  {"qkv", Kind::qkv},
                                                                  {"in_proj", Kind::qkv},
                                                                  {"in_proj_weight", Kind::qkv},
                                                                  {"to_qkv", Kind::qkv},
                                                                  {"o_proj", Kind::o},
                                                                  {"out_proj", Kind::o},
                                                                  {"attn_output", Kind::o},
                                                                  {"out_lin", Kind::o},
                                                                  {"to_out", Kind::o},
                                                                  {"o", Kind::o},
                                                                  {"gate_proj", Kind::gate},
                                                                  {"ffn_gate", Kind::gate},
                                                                  {"ffn_gate_exps", Kind::gate},
                                                                  {"ffn_gate_shexp", Kind::gate},
                                                                  {"w1", Kind::gate},
                                                                  {"wi_0", Kind::gate},
                                                                  {"up_proj", Kind::up},
                                                                  {"ffn_up", Kind::up},
                                                                  {"ffn_up_exps", Kind::up},
                                                                  {"ffn_up_shexp", Kind::up},
                                                                  {"w3", Kind::up},
                                                                  {"fc1", Kind::up},
                                                                  {"c_fc", Kind::up},
                                                                  {"fc_in", Kind::up},
                                                                  {"intermediate", Kind::up},
                                                                  {"dense_h_to_4h", Kind::up},
                                                                  {"wi", Kind::up},
                                                                  {"wi_1", Kind::up},
                                                                  {"lin1", Kind::up},
                                                                  {"gate_up_proj", Kind::gate_up},
                                                                  {"down_proj", Kind::down},
                                                                  {"ffn_down", Kind::down},
                                                                  {"ffn_down_exps", Kind::down},
                                                                  {"ffn_down_shexp", Kind::down},
                                                                  {"w2", Kind::down},
                                                                  {"fc2", Kind::down},
                                                                  {"fc_out", Kind::down},
                                                                  {"dense_4h_to_h", Kind::down},
                                                                  {"lin2", Kind::down},
                                                                  {"embed_tokens", Kind::embedding},
                                                                  {"embed_positions", Kind::embedding},
                                                                  {"token_embd", Kind::embedding},
                                                                  {"position_embd", Kind::embedding},
                                                                  {"token_types", Kind::embedding},
                                                                  {"wte", Kind::embedding},
                                                                  {"wpe", Kind::embedding},
                                                                  {"embed_in", Kind::embedding},
                                                                  {"word_embeddings", Kind::embedding},
                                                                  {"position_embeddings", Kind::embedding},
                                                                  {"token_type_embeddings", Kind::embedding},
                                                                  {"tok_embeddings", Kind::embedding},
                                                                  {"embedding", Kind::embedding},
                                                                  {"embeddings", Kind::embedding},
                                                                  {"shared", Kind::embedding},
                                                                  {"lm_head", Kind::lm_head},
                                                                  {"embed_out", Kind::lm_head},
                                                                  {"ln_1", Kind::norm},
                                                                  {"ln_2", Kind::norm},
                                                                  {"ln_f", Kind::norm}};

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '.' || c == '/')
      parts.emplace_back();
    else
      parts.back() += char(std::tolower(static_cast<unsigned char>(c)));
  }
  return parts;
}

}  // namespace

std::string_view layer_kind_name(LayerKind kind) { return kKindNames[size_t(kind)]; }

LayerKind layer_kind(const std::string& name) {
  const std::vector<std::string> parts = parts_of(name);
  const auto any_part = [&](auto... words) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const std::string& part) { return ((part.find(words) != part.npos) || ...); });
  };
  if (any_part("norm")) return Kind::norm;
  if (is_scale_word(parts.back())) return Kind::scale;
  if (parts.back().starts_with("bias") || parts.back().ends_with("_bias")) return Kind::bias;
  if (name == "output.weight") return Kind::lm_head;  // of GGUF and of Llama's own checkpoints
  const bool in_attention = any_part("attn", "attention");
  for (size_t i = parts.size(); i-- > 0;) {
    std::string_view part = parts[i];
    if (constexpr std::string_view kBlocks = "_blocks"; part.ends_with(kBlocks)) part.remove_suffix(kBlocks.size());
    // Words that have one meaning in attention and another elsewhere.
    if (part == "wo") return any_part("mlp", "ffn", "feed", "dense") ? Kind::down : Kind::o;
    if (part == "c_proj") return in_attention ? Kind::o : Kind::down;
    if (part == "dense" && i > 0 && parts[i - 1] == "output") return in_attention ? Kind::o : Kind::down;
    if (part == "dense" && in_attention) return Kind::o;
    const auto known =
        std::find_if(std::begin(kKindOfPart), std::end(kKindOfPart), [&](const auto& p) { return p.first == part; });
    if (known != std::end(kKindOfPart)) return known->second;
  }
  return Kind::other;
}

bool is_of_encoder(const std::string& name) {
  constexpr std::string_view kWords[] = {"vision",    "visual",    "vit",       "image", "audio",
                                         "projector", "speech",    "resampler", "video", "mm",
                                         "vqgan",     "connector", "sam",       "clip",  "siglip"};
  const std::vector<std::string> parts = parts_of(name);
  if (parts.size() > 1 && (parts[0] == "v" || parts[0] == "a") && parts[1] == "blk") return true;  // of GGUF
  return std::ranges::any_of(parts, [&](const std::string& part) {
    return std::ranges::any_of(kWords, [&](std::string_view word) {
      // A word, or one of the words that lines join: "vision_tower", "multi_modal_projector".
      for (size_t at = part.find(word); at != part.npos; at = part.find(word, at + 1)) {
        const size_t end = at + word.size();
        if ((at == 0 || part[at - 1] == '_') && (end == part.size() || part[end] == '_')) return true;
      }
      return false;
    });
  });
}

int64_t layer_block(const std::string& name) {
  for (const std::string& part : parts_of(name))
    if (!part.empty() && part.size() < 9 && part.find_first_not_of("0123456789") == part.npos) return std::stoll(part);
  return -1;
}

}  // namespace ecmv::datasets
