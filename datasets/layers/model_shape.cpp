// See model_shape.h. The named shapes come from the published config.json files.
#include "datasets/layers/model_shape.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "datasets/files/zero_bytes.h"
#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

//                                                      hidden inter blocks heads kv dim vocabulary
constexpr NamedModelShape kNamedModels[] = {
    {"llama_2_7b", {4096, 11008, 32, 32, 32, 128, 32000}},  {"llama_3_8b", {4096, 14336, 32, 32, 8, 128, 128256}},
    {"llama_3_70b", {8192, 28672, 80, 64, 8, 128, 128256}}, {"llama_3_405b", {16384, 53248, 126, 128, 8, 128, 128256}},
    {"mistral_7b", {4096, 14336, 32, 32, 8, 128, 32768}},   {"qwen3_0_6b", {1024, 3072, 28, 16, 8, 128, 151936}},
    {"qwen3_8b", {4096, 12288, 36, 32, 8, 128, 151936}},    {"qwen3_32b", {5120, 25600, 64, 64, 8, 128, 151936}},
    {"smollm2_135m", {576, 1536, 30, 9, 3, 64, 49152}}};

constexpr int64_t kLargestSize = int64_t{1} << 20, kMostBlocks = 1000;
constexpr size_t kMaxConfigBytes = 1 << 20;

[[noreturn]] void bad_config(const std::string& what) {
  throw DatasetError("Not the config.json of a language model: " + what);
}

// Refuses a tree of objects and lists that is deeper than configs are, because the tree's functions recurse.
nlohmann::json config_tree(std::string_view text) {
  constexpr int kDeepest = 20;
  if (text.size() > kMaxConfigBytes) bad_config("it has " + std::to_string(text.size()) + " bytes.");
  expect_no_zero_bytes(text, bad_config);
  bool too_deep = false;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  try {
    nlohmann::json tree = nlohmann::json::parse(text, watch);
    if (too_deep) bad_config("it is nested too deeply.");
    if (!tree.is_object()) bad_config("it is no JSON object.");
    return tree;
  } catch (const nlohmann::json::exception& error) {
    bad_config(std::string("it is not correct JSON (") + error.what() + ").");
  }
}

// Models that also read images or sound have the language model's sizes in an object of their own.
const nlohmann::json& language_config(const nlohmann::json& config) {
  for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"})
    if (const auto found = config.find(key); found != config.end() && found->is_object())
      return language_config(*found);
  return config;
}

int64_t model_size(const nlohmann::json& config, const char* key, std::optional<int64_t> otherwise = {}) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) {
    if (otherwise) return *otherwise;
    bad_config("it has no \"" + std::string(key) + "\".");
  }
  if (!found->is_number_unsigned() || found->get<uint64_t>() == 0 || found->get<uint64_t>() > uint64_t(kLargestSize))
    bad_config("its \"" + std::string(key) + "\" is no integer from 1 to " + std::to_string(kLargestSize) + ".");
  return found->get<int64_t>();
}

}  // namespace

std::span<const NamedModelShape> named_model_shapes() { return kNamedModels; }

ModelShape parse_model_config(std::string_view text) {
  const nlohmann::json whole = config_tree(text), &config = language_config(whole);
  ModelShape model;
  model.hidden = model_size(config, "hidden_size");
  model.intermediate = model_size(config, "intermediate_size");
  model.blocks = model_size(config, "num_hidden_layers");
  model.heads = model_size(config, "num_attention_heads");
  model.kv_heads = model_size(config, "num_key_value_heads", model.heads);
  model.vocabulary = model_size(config, "vocab_size");
  const auto head_dim = config.find("head_dim");
  if ((head_dim == config.end() || head_dim->is_null()) && model.hidden % model.heads != 0)
    bad_config("its \"hidden_size\" is no multiple of its \"num_attention_heads\".");
  if (model.heads % model.kv_heads != 0)
    bad_config("its \"num_attention_heads\" is no multiple of its \"num_key_value_heads\".");
  for (const char* experts : {"num_local_experts", "num_experts", "n_routed_experts"})
    if (model_size(config, experts, 1) > 1)
      bad_config("it is a mixture of " + std::to_string(model_size(config, experts)) + " experts (\"" + experts +
                 "\"), whose shapes are not made up; give weights.");
  model.head_dim = model_size(config, "head_dim", model.hidden / model.heads);
  for (const int64_t heads : {model.heads, model.kv_heads})
    if (heads * model.head_dim > kLargestSize)
      bad_config("its heads have " + std::to_string(heads * model.head_dim) + " rows together.");
  if (model.blocks > kMostBlocks) bad_config("it has more than " + std::to_string(kMostBlocks) + " hidden layers.");
  return model;
}

bool ties_embeddings(std::string_view text) {
  const nlohmann::json whole = config_tree(text);
  for (const nlohmann::json* config : {&language_config(whole), &whole})
    if (const auto found = config->find("tie_word_embeddings"); found != config->end() && found->is_boolean())
      return found->get<bool>();
  return true;  // where nothing is said
}

std::vector<LinearLayer> linear_layers(const ModelShape& model, int64_t blocks) {
  const int64_t query = model.heads * model.head_dim, value = model.kv_heads * model.head_dim;
  const std::pair<const char*, Shape> of_a_block[] = {
      {"self_attn.q_proj", {query, model.hidden}},           {"self_attn.k_proj", {value, model.hidden}},
      {"self_attn.v_proj", {value, model.hidden}},           {"self_attn.o_proj", {model.hidden, query}},
      {"mlp.gate_proj", {model.intermediate, model.hidden}}, {"mlp.up_proj", {model.intermediate, model.hidden}},
      {"mlp.down_proj", {model.hidden, model.intermediate}}};
  std::vector<LinearLayer> layers;
  const auto add = [&](std::string name, Shape shape) {
    const LayerKind kind = layer_kind(name);
    layers.push_back({std::move(name), kind, shape});
  };
  for (int64_t block = 0; block < (blocks == 0 ? model.blocks : std::min(blocks, model.blocks)); ++block)
    for (const auto& [name, shape] : of_a_block)
      add("model.layers." + std::to_string(block) + "." + name + ".weight", shape);
  add("lm_head.weight", {model.vocabulary, model.hidden});
  return layers;
}

}  // namespace ecmv::datasets
