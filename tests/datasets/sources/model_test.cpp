// Claims about models as data: the matrices of a shape or a folder, and their order.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "datasets/layers/model_shape.h"
#include "datasets/layers/weight_layers.h"
#include "tests/datasets/temporary_file.h"
#include "tests/gguf_blocks.h"
#include "tests/weight_files.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;

namespace {

const char* const kTiny = R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 20, "rope_scaling": {"factor": 8.0}})";

// A config.json of kTiny.
class TinyConfig {
 public:
  TinyConfig() { std::filesystem::copy_file(text_.path(), path_); }
  TinyConfig(const TinyConfig&) = delete;
  TinyConfig& operator=(const TinyConfig&) = delete;
  ~TinyConfig() { std::filesystem::remove(path_); }
  SourceRequest request() const {
    SourceRequest request;
    request.texts["model"] = path_;
    return request;
  }

 private:
  TemporaryFile text_{to_bytes(kTiny)};
  std::string path_ = text_.path() + ".json";
};

std::vector<std::string> names_of(const Dataset& dataset) {
  std::vector<std::string> names;
  for (const Matrix& matrix : dataset.layers) names.push_back(matrix.name);
  return names;
}

}  // namespace

TEST_CASE("a model's shape gives the linear layers of a decoding step in their order") {
  const auto layers = linear_layers(parse_model_config(kTiny), 0);
  REQUIRE(layers.size() == 15);
  const Shape expected[] = {{8, 8}, {4, 8}, {4, 8}, {8, 8}, {12, 8}, {12, 8}, {8, 12}};
  for (size_t i = 0; i < 14; ++i) CHECK(layers[i].shape == expected[i % 7]);
  CHECK(layers[0].name == "model.layers.0.self_attn.q_proj.weight");
  CHECK(layers[13].name == "model.layers.1.mlp.down_proj.weight");
  CHECK(layers[13].kind == LayerKind::down);
  CHECK(layers[14].name == "lm_head.weight");
  CHECK(layers[14].shape == Shape{20, 8});
  CHECK(linear_layers(parse_model_config(kTiny), 1).size() == 8);
}

TEST_CASE("named shapes have the numbers of weights that their models are known by") {
  const auto weights = [](std::string_view name) {
    for (const NamedModelShape& model : named_model_shapes())
      if (model.name == name) {
        int64_t sum = 0;
        for (const LinearLayer& layer : linear_layers(model.shape, 0)) sum += layer.shape.elements();
        return sum;
      }
    return int64_t{0};
  };
  // Without embedding and norms: for Llama 3 8B, 8,030,261,248 - 128256 * 4096 - 65 * 4096.
  CHECK(weights("llama_3_8b") == 8'030'261'248 - 128'256 * 4096 - 65 * 4096);
  CHECK(weights("llama_3_70b") == 70'553'706'496 - 128'256ll * 8192 - 161 * 8192);
  CHECK(weights("llama_3_405b") == 405'853'388'800 - 128'256ll * 16384 - 253 * 16384);
  CHECK(weights("llama_2_7b") == 6'738'415'616 - 32'000 * 4096 - 65 * 4096);
  // Tied, so that lm_head stands for the embedding.
  CHECK(weights("smollm2_135m") == 134'515'008 - 61 * 576);
}

TEST_CASE("a shape is filled with llm_like weights, the same for the same seed and whatever the blocks are") {
  const TinyConfig config;
  SourceRequest request = config.request();
  const Dataset all = load("model", request);
  REQUIRE(all.layers.size() == 15);
  CHECK(all.layers[0].type == ElementType::bf16);
  CHECK(all.layers[6].shape == Shape{8, 12});
  CHECK(all.initial_vector.size() == 8);
  CHECK(find_source("model")->check(request).bytes == 2 * (2 * (2 * 64 + 2 * 32 + 3 * 96) + 160));
  request.numbers["blocks"] = 1;
  const Dataset first = load("model", request);
  REQUIRE(first.layers.size() == 8);
  CHECK(first.layers[6].elements == all.layers[6].elements);
  CHECK(first.layers[7].name == "lm_head.weight");
}

TEST_CASE("rows takes the first rows of each matrix") {
  const TinyConfig config;
  SourceRequest request = config.request();
  request.numbers["rows"] = 5;
  const Dataset some = load("model", request);
  CHECK(some.layers[0].shape == Shape{5, 8});
  CHECK(some.layers[1].shape == Shape{4, 8});
  CHECK(some.layers[14].shape == Shape{5, 8});
  CHECK(some.layers[14].elements.size() == 2 * 5 * 8);
  int64_t elements = 0;
  for (const Matrix& matrix : some.layers) elements += matrix.shape.elements();
  CHECK(find_source("model")->check(request).bytes == 2 * elements);
}

TEST_CASE("joined layers have the rows of q, k and v, and of gate and up") {
  const TinyConfig config;
  SourceRequest request = config.request();
  const Dataset apart = load("model", request);
  request.numbers["joined"] = 1;
  const Dataset joined = load("model", request);
  REQUIRE(joined.layers.size() == 9);
  const auto rows_of = [&](std::initializer_list<size_t> layers) {
    std::vector<std::byte> rows;
    for (const size_t i : layers)
      rows.insert(rows.end(), apart.layers[i].elements.begin(), apart.layers[i].elements.end());
    return rows;
  };
  CHECK(joined.layers[0].name == "model.layers.0.self_attn.qkv_proj.weight");
  CHECK(joined.layers[0].shape == Shape{16, 8});
  CHECK(joined.layers[0].elements == rows_of({0, 1, 2}));
  CHECK(joined.layers[0].content_hash == content_hash(joined.layers[0].view()));
  CHECK(joined.layers[1].elements == apart.layers[3].elements);
  CHECK(joined.layers[2].name == "model.layers.0.mlp.gate_up_proj.weight");
  CHECK(joined.layers[2].elements == rows_of({4, 5}));
  CHECK(joined.layers[3].name == apart.layers[6].name);
  CHECK(joined.layers[6].elements == rows_of({11, 12}));
  CHECK(joined.layers[8].name == "lm_head.weight");
  CHECK(find_source("model")->check(request).bytes == 2 * (2 * (2 * 64 + 2 * 32 + 3 * 96) + 160));
}

TEST_CASE("layers are joined where all of them follow each other, of one width and without scales") {
  const auto tensor = [](const char* name, uint64_t cols = 2, uint32_t type = kF32) {
    return GgufTensor{name, {cols, 2}, type, std::string(static_cast<size_t>(cols) * 8, '\1')};
  };
  const TemporaryFile file(to_bytes(GgufFile{
      {tensor("blk.0.attn_q.weight"), tensor("blk.0.attn_k.weight"), tensor("blk.1.attn_q.weight"),
       tensor("blk.1.attn_k.weight"), tensor("blk.1.attn_v.weight"), tensor("blk.1.ffn_gate.weight"),
       tensor("blk.1.ffn_up.weight", 4)},
      {}}.bytes()));
  SourceRequest request;
  request.texts["model"] = file.path();
  request.numbers["joined"] = 1;
  CHECK(names_of(load("model", request)) == std::vector<std::string>{"blk.0.attn_q.weight", "blk.0.attn_k.weight",
                                                                     "blk.1.attn_qkv.weight", "blk.1.ffn_gate.weight",
                                                                     "blk.1.ffn_up.weight"});
  const TemporaryFile blocks(to_bytes(GgufFile{
      {blocks_tensor("blk.0.attn_q.weight", {32, 2}, kQ8_0).tensor,
       blocks_tensor("blk.0.attn_k.weight", {32, 2}, kQ8_0).tensor,
       blocks_tensor("blk.0.attn_v.weight", {32, 2}, kQ8_0).tensor},
      {}}.bytes()));
  request.texts["model"] = blocks.path();
  REQUIRE_DATASET_ERROR(load("model", request), "scales of their own are not joined");
  REQUIRE_DATASET_ERROR(find_source("model")->check(request), "scales of their own are not joined");
}

TEST_CASE("a config.json is refused where its shapes would be made up, and a folder of weights is no shape") {
  const auto config = [](const std::string& more) {
    return R"({"hidden_size":64,"intermediate_size":128,"num_attention_heads":4,)"
           R"("num_hidden_layers":2,"vocab_size":100)" +
           more + "}";
  };
  CHECK(parse_model_config(config(R"(,"head_dim":null)")).head_dim == 16);
  CHECK(parse_model_config(config(R"(,"num_experts":1,"num_local_experts":null)")).blocks == 2);
  REQUIRE_DATASET_ERROR(parse_model_config(config(R"(,"num_local_experts":8)")), "mixture of 8 experts");
  REQUIRE_DATASET_ERROR(parse_model_config(config(R"(,"num_key_value_heads":3)")), "\"num_key_value_heads\"");
  REQUIRE_DATASET_ERROR(parse_model_config(R"({"hidden_size":2,"intermediate_size":128,"num_attention_heads":4,)"
                                           R"("num_hidden_layers":2,"vocab_size":100,"head_dim":null})"),
                        "no multiple of its \"num_attention_heads\"");
  CHECK(ties_embeddings("{}"));
  CHECK_FALSE(ties_embeddings(R"({"tie_word_embeddings":false})"));

  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("ecmv_model_" + std::to_string(getpid()));
  fs::create_directory(folder);
  std::ofstream(folder / "config.json") << config("");
  CHECK(weight_layers(folder.string()).drawn);
  std::ofstream(folder / "adapter.safetensors") << "x";
  SourceRequest request;
  request.texts["model"] = folder.string();
  REQUIRE_DATASET_ERROR(find_source("model")->check(request), "has weights, \"adapter.safetensors\"");
  REQUIRE_DATASET_ERROR(weight_layers(folder.string()), "a file of another name can be given itself");
  std::ofstream(folder / "model-00001-of-00002.safetensors") << "x";  // its name says that it is the model
  REQUIRE_DATASET_ERROR(find_source("model")->check(request), "Not a valid safetensors file");
  fs::remove_all(folder);
}

TEST_CASE("the layers of weights are known without their elements, of shapes and of files") {
  const WeightLayers named = weight_layers("llama_3_70b");
  CHECK(named.source == "model");
  CHECK(named.drawn);
  CHECK(named.layers.size() == 80 * 7 + 1);
  CHECK(named.layers[6].kind == LayerKind::down);
  CHECK(named.layers[6].shape == Shape{8192, 28672});
  CHECK(named.layers[6].stored_bytes == 2 * 8192 * 28672);
  const TemporaryFile file(to_bytes(safetensors_file({{"first", "F32", "[2, 3, 8]", std::string(192, '\0')}})));
  const WeightLayers layers = weight_layers(file.path());
  CHECK(layers.source == "weights");
  CHECK_FALSE(layers.drawn);
  REQUIRE(layers.layers.size() == 2);
  CHECK(layers.layers[0].shape == Shape{3, 8});
  CHECK(layers.layers[0].stored_bytes == 96);
  CHECK(layers.layers[0].dtype == "F32");
  REQUIRE_DATASET_ERROR(weight_layers("lama_3_8b"), "is neither a file, nor a folder, nor one of");
  SourceRequest request;
  request.texts["file"] = file.path();
  request.numbers["rows"] = 2;
  CHECK(load("weights", request).layers.at(1).shape == Shape{2, 8});
}

TEST_CASE("the weights of a model come in the order of a decoding step, whatever their order in the file is") {
  const auto tensor = [](const char* name, uint32_t type = kF32) {
    return GgufTensor{name, {2, 2}, type, std::string(16, '\1')};
  };
  GgufFile file{{tensor("token_embd.weight"), tensor("blk.10.attn_q.weight"), tensor("blk.2.ffn_down.weight"),
                 tensor("blk.2.attn_output.weight"), tensor("blk.2.attn_v.weight"), tensor("blk.2.attn_norm.weight")},
                {}};
  const TemporaryFile tied(to_bytes(file.bytes()));
  SourceRequest request;
  request.texts["model"] = tied.path();
  CHECK(names_of(load("model", request)) == std::vector<std::string>{"blk.2.attn_v.weight", "blk.2.attn_output.weight",
                                                                     "blk.2.ffn_down.weight", "blk.10.attn_q.weight",
                                                                     "token_embd.weight"});
  request.numbers["blocks"] = 3;
  CHECK(load("model", request).layers.size() == 4);
  file.tensors.push_back(tensor("output.weight"));
  const TemporaryFile untied(to_bytes(file.bytes()));
  request.texts["model"] = untied.path();
  CHECK(names_of(load("model", request)).back() == "output.weight");
  const TemporaryFile none(to_bytes(GgufFile{{tensor("a"), tensor("b")}, {}}.bytes()));
  request.texts["model"] = none.path();
  REQUIRE_DATASET_ERROR(load("model", request), "None of the 2 tensors is known by its name");
}

TEST_CASE("a folder's embedding is its lm_head where config.json says so") {
  const TemporaryFile place(std::vector<std::byte>{});
  const std::filesystem::path folder = place.path() + ".folder";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "model.safetensors", std::ios::binary)
      << safetensors_file({{"model.embed_tokens.weight", "BF16", "[2, 1]", "abcd"},
                           {"model.layers.0.mlp.down_proj.weight", "BF16", "[1, 2]", "abcd"},
                           {"model.layers.0.self_attn.q_proj.weight", "BF16", "[1, 2]", "abcd"}});
  SourceRequest request;
  request.texts["model"] = folder.string();
  for (const bool tied : {false, true}) {
    std::ofstream(folder / "config.json") << "{\"tie_word_embeddings\": " << (tied ? "true}" : "false}");
    const std::vector<std::string> names = names_of(load("model", request));
    REQUIRE(names.size() == (tied ? 3 : 2));
    CHECK(names[0] == "model.layers.0.self_attn.q_proj.weight");
    CHECK(names.back() == (tied ? "model.embed_tokens.weight" : "model.layers.0.mlp.down_proj.weight"));
  }
  std::ofstream(folder / "config.json") << "{";
  REQUIRE_DATASET_ERROR(load("model", request), "config.json\": Not the config.json of a language model");
  std::filesystem::remove(folder / "model.safetensors");
  std::ofstream(folder / "config.json") << kTiny;
  CHECK(load("model", request).layers.size() == 15);
  std::filesystem::remove_all(folder);
}

TEST_CASE("what is no model is refused with the reason") {
  SourceRequest request;
  request.texts["model"] = "llama_9";
  REQUIRE_DATASET_ERROR(load("model", request), "\"llama_9\" is neither a file, nor a folder, nor one of llama_2_7b");
  REQUIRE_DATASET_ERROR(find_source("model")->check(request), "llama_9");
  REQUIRE_DATASET_ERROR(parse_model_config("[]"), "no JSON object");
  REQUIRE_DATASET_ERROR(parse_model_config("{"), "not correct JSON");
  REQUIRE_DATASET_ERROR(parse_model_config("{}"), "no \"hidden_size\"");
  REQUIRE_DATASET_ERROR(parse_model_config(R"({"hidden_size": -1})"), "\"hidden_size\" is no integer from 1");
  REQUIRE_DATASET_ERROR(parse_model_config(R"({"hidden_size": "8"})"), "\"hidden_size\" is no integer from 1");
  REQUIRE_DATASET_ERROR(parse_model_config(R"({"hidden_size": 1e9})"), "\"hidden_size\" is no integer from 1");
  REQUIRE_DATASET_ERROR(parse_model_config(std::string(2'000'000, ' ')), "2000000 bytes");
  REQUIRE_DATASET_ERROR(parse_model_config("{\"a\": " + std::string(1000, '[') + std::string(1000, ']') + "}"),
                        "nested");
  REQUIRE_DATASET_ERROR(parse_model_config(R"({"hidden_size": 10, "intermediate_size": 12, "num_hidden_layers": 2,
                             "num_attention_heads": 4, "vocab_size": 20})"),
                        "no multiple of its \"num_attention_heads\"");
  REQUIRE_DATASET_ERROR(parse_model_config(R"({"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1001,
                             "num_attention_heads": 4, "vocab_size": 20})"),
                        "more than 1000 hidden layers");
  REQUIRE_DATASET_ERROR(parse_model_config(R"({"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
                             "num_attention_heads": 1000000, "head_dim": 1000000, "vocab_size": 20})"),
                        "its heads have 1000000000000 rows together");
}

TEST_CASE("the language model of a nested config is what counts") {
  const std::string inner = std::string(kTiny);
  const std::string nested =
      R"({"model_type": "llava", "vision_config": {"hidden_size": 99}, "text_config": )" + inner + "}";
  CHECK(parse_model_config(nested).hidden == 8);
  CHECK(parse_model_config(R"({"thinker_config": {"text_config": )" + inner + "}}").vocabulary == 20);
  CHECK_FALSE(ties_embeddings(R"({"text_config": {"tie_word_embeddings": false}})"));
  CHECK_FALSE(ties_embeddings(R"({"text_config": {}, "tie_word_embeddings": false})"));
  CHECK(ties_embeddings(R"({"text_config": {"tie_word_embeddings": true}, "tie_word_embeddings": false})"));
  REQUIRE_DATASET_ERROR(parse_model_config(std::string(kTiny) + std::string("\0{", 2)), "a zero byte");
}

TEST_CASE("encoders of images are no part of a decoding step, and what is left out of one is told of") {
  const auto tensor = [](const std::string& name) {
    return SafetensorsEntry{name, "F32", "[2, 2]", std::string(16, 'a')};
  };
  const TemporaryFile file(to_bytes(safetensors_file(
      {tensor("language_model.model.layers.0.self_attn.q_proj.weight"),
       tensor("vision_tower.encoder.layers.0.self_attn.q_proj.weight"), tensor("multi_modal_projector.linear_1.weight"),
       tensor("language_model.model.layers.0.mlp.gate.weight"), tensor("language_model.lm_head.weight")})));
  SourceRequest request;
  request.texts["model"] = file.path();
  CHECK(names_of(load("model", request)) ==
        std::vector<std::string>{"language_model.model.layers.0.self_attn.q_proj.weight",
                                 "language_model.lm_head.weight"});
  CHECK(
      find_source("model")->check(request).remarks ==
      std::vector<std::string>{"Left out of the step, of encoders of images and the like: 2 tensors, 32 bytes, such as "
                               "\"vision_tower.encoder.layers.0.self_attn.q_proj.weight\" of F32.",
                               "Left out of the step, no layers by their names: 1 tensor, 16 bytes, such as "
                               "\"language_model.model.layers.0.mlp.gate.weight\" of F32."});
  const TemporaryFile images(
      to_bytes(safetensors_file({tensor("vision_model.encoder.layers.0.self_attn.q_proj.weight")})));
  request.texts["model"] = images.path();
  CHECK(load("model", request).layers.size() == 1);
}

TEST_CASE("one layer of a type that is not read does not keep the others from a step") {
  const BlocksTensor read = blocks_tensor("blk.0.attn_q.weight", {32, 2}, kQ4_0);
  const GgufTensor head{"output.weight", {256, 1}, kQ4_K, std::string(144, '\0')};
  const TemporaryFile file(to_bytes(GgufFile{{read.tensor, head}, {}}.bytes()));
  SourceRequest request;
  request.texts["model"] = file.path();
  CHECK(names_of(load("model", request)) == std::vector<std::string>{"blk.0.attn_q.weight"});
  CHECK(find_source("model")->check(request).remarks ==
        std::vector<std::string>{"Left out of the step, of types that are not read: 1 tensor, 144 bytes, such as "
                                 "\"output.weight\" of Q4_K."});
  const GgufTensor other{"blk.0.attn_q.weight", {256, 1}, kQ4_K, std::string(144, '\0')};
  const TemporaryFile none(to_bytes(GgufFile{{other}, {}}.bytes()));
  request.texts["model"] = none.path();
  REQUIRE_DATASET_ERROR(load("model", request), "of a type that is read. Left out of the step");
}
