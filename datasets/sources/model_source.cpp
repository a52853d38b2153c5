// Source `model`: the linear layers of a language model in the order of a decoding step. Weights come from a file or
// folder; for a shape alone they are drawn as in `llm_like`.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <tuple>

#include "datasets/files/file_bytes.h"
#include "datasets/files/model_folder.h"
#include "datasets/files/weight_files.h"
#include "datasets/layers/joined_layers.h"
#include "datasets/layers/model_shape.h"
#include "datasets/layers/prepare.h"
#include "datasets/layers/unpack.h"
#include "datasets/layers/weight_layers.h"
#include "datasets/sources/llm_like.h"
#include "datasets/sources/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr ParameterInfo kModelParameters[] = {
    {.name = "model",
     .help = "a folder or file with weights; a config.json, or a folder with only that; or a name: llama_2_7b, "
             "llama_3_8b, llama_3_70b, llama_3_405b, mistral_7b, qwen3_0_6b, qwen3_8b, qwen3_32b, smollm2_135m",
     .is_text = true,
     .required = true},
    {.name = "blocks",
     .help = "decoder blocks, the first ones; all if left out",
     .min = 1,
     .max = 1000,
     .is_integer = true},
    {.name = "joined",
     .help =
         "1: q, k and v of a block are one matrix, gate and up another, as inference engines hold them; 0 if left out",
     .min = 0,
     .max = 1,
     .is_integer = true},
    kElements,
    kRows,
    kRoundTo};

Dataset load_model(const SourceRequest& request);
SourceFacts check_model(const SourceRequest& request);

}  // namespace

extern const DataSource kModelSource{"model",    "linear layers of a language model in the order of a decoding step",
                                     false,      kModelParameters,
                                     load_model, 1,
                                     check_model};

namespace {

bool is_joined(const Parameters& parameters) { return parameters.has("joined") && parameters.integer("joined") == 1; }

int64_t blocks_of(const Parameters& parameters) { return parameters.has("blocks") ? parameters.integer("blocks") : 0; }

Shape first_rows(Shape shape, const Parameters& parameters) {
  return parameters.has("rows") ? Shape{std::min<int64_t>(shape.rows, parameters.integer("rows")), shape.cols} : shape;
}

// Passes the text of a config.json to `read`.
auto of_config(const std::filesystem::path& config, const auto& read) {
  const FileBytes file(config.string());
  try {
    return read(std::string_view(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()));
  } catch (const DatasetError& bad) {
    throw DatasetError("In the file \"" + config.string() + "\": " + bad.what());
  }
}

// A folder that is taken for a shape must have no weights, which would be left out silently.
void expect_no_weights(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string kind = entry.path().extension().string();
    if (kind == ".safetensors" || kind == ".bin" || kind == ".gguf" || kind == ".onnx" || kind == ".pth")
      throw DatasetError(
          "The folder \"" + folder.string() + "\" has weights, \"" + entry.path().filename().string() +
          "\", but neither model.safetensors nor model.safetensors.index.json; give that file itself, or "
          "config.json for the shape alone.");
  }
}

// The shape that a name or a config.json gives; nothing for a path with weights.
std::optional<ModelShape> shape_of(const std::string& model) {
  for (const NamedModelShape& named : named_model_shapes())
    if (named.name == model) return named.shape;
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path config = model;
  if (!fs::exists(config, error)) {
    std::string names;
    for (const NamedModelShape& named : named_model_shapes())
      names += (names.empty() ? "" : ", ") + std::string(named.name);
    throw DatasetError("The model \"" + model + "\" is neither a file, nor a folder, nor one of " + names + ".");
  }
  if (fs::is_directory(config, error)) {
    if (fs::exists(config / "model.safetensors", error) || fs::exists(config / "model.safetensors.index.json", error) ||
        !counted_parts(config).empty())
      return std::nullopt;
    expect_no_weights(config);
    config /= "config.json";
  }
  if (config.extension() != ".json") return std::nullopt;
  return of_config(config, parse_model_config);
}

// GGUF files leave lm_head out if it is the embedding; a config.json in the folder states it.
bool is_tied(const WeightFiles& files, const std::string& model) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path config =
      (fs::is_directory(model, error) ? fs::path(model) : fs::path(model).parent_path()) / "config.json";
  return files.format == "gguf" || (fs::exists(config, error) && of_config(config, ties_embeddings));
}

struct Step {
  std::vector<const TensorView*> tensors = {};
  std::vector<std::string> remarks = {};
};

// Layers of blocks in the order of LayerKind (the order of a step), then lm_head, or the embedding in its place.
Step step_of(const WeightFiles& files, int64_t blocks, bool tied) {
  using Layer = std::tuple<bool, int64_t, LayerKind, const TensorView*>;
  std::vector<Layer> layers, of_encoders;
  std::vector<const TensorView*> encoders, others;
  const TensorView *head = nullptr, *embedding = nullptr;
  for (const TensorView& tensor : files.tensors) {
    const LayerKind kind = layer_kind(tensor.name);
    if (tensor.shape.size() < 2 || tensor.is_beside || kind == LayerKind::scale) continue;
    const int64_t block = layer_block(tensor.name);
    const bool encoder = is_of_encoder(tensor.name);
    if (kind <= LayerKind::down && block >= 0) {
      if (blocks == 0 || block < blocks) (encoder ? of_encoders : layers).emplace_back(false, block, kind, &tensor);
      if (encoder) encoders.push_back(&tensor);
    } else if (encoder) {
      encoders.push_back(&tensor);
    } else if (kind == LayerKind::lm_head) {
      head = &tensor;
    } else if (kind == LayerKind::embedding) {
      if (embedding == nullptr) embedding = &tensor;
    } else if (kind != LayerKind::norm && kind != LayerKind::bias) {
      others.push_back(&tensor);
    }
  }
  Step step;
  step.remarks = files.remarks;
  if (layers.empty())
    layers = std::move(of_encoders);  // a model of images alone
  else
    remark_on("Left out of the step, of encoders of images and the like", encoders, "", step.remarks);
  if (layers.empty())
    throw DatasetError("None of the " + std::to_string(files.tensors.size()) +
                       " tensors is known by its name as a linear layer of a block.");
  remark_on("Left out of the step, no layers by their names", others, "", step.remarks);
  if (head == nullptr && tied) head = embedding;
  if (head != nullptr) layers.emplace_back(true, 0, LayerKind::lm_head, head);
  std::sort(layers.begin(), layers.end());
  for (const Layer& layer : layers) step.tensors.push_back(std::get<const TensorView*>(layer));
  return step;
}

// Calls use(tensor) for each layer of existing weights.
void for_each_tensor(const std::string& model, int64_t blocks, std::vector<std::string>& remarks, const auto& use) {
  const WeightFiles files = open_weights(model);
  try {
    const Step step = step_of(files, blocks, is_tied(files, model));
    remarks = step.remarks;
    for (const TensorView* tensor : step.tensors) use(*tensor);
  } catch (const DatasetError& error) {
    throw DatasetError("In the model \"" + model + "\": " + error.what());
  }
}

// The same for the layers that can be read and are wanted. Others are told of.
void for_each_read_tensor(const Parameters& parameters, std::vector<std::string>& remarks, const auto& use) {
  std::vector<TensorView> unread;
  bool any = false;
  for_each_tensor(parameters.text("model"), blocks_of(parameters), remarks, [&](const TensorView& tensor) {
    if (!why_no_matrices(tensor, Elements::any).empty()) {
      unread.push_back(tensor);
    } else if (has_wanted_elements(tensor, parameters)) {
      use(tensor);
      any = true;
    }
  });
  std::vector<const TensorView*> views;
  for (const TensorView& tensor : unread) views.push_back(&tensor);
  remark_on("Left out of the step, of types that are not read", views, "", remarks);
  if (any) return;
  throw DatasetError(
      "No layer of the model \"" + parameters.text("model") + "\" has elements of " +
      (unread.empty() ? "type \"" + parameters.text("elements") + "\"." : "a type that is read. " + remarks.back()));
}

SourceFacts check_model(const SourceRequest& request) {
  const Parameters parameters(kModelSource, request);
  expect_known_type(parameters, kModelSource.id);
  const std::string& model = parameters.text("model");
  SourceFacts facts;
  if (const std::optional<ModelShape> shape = shape_of(model)) {
    for (const LinearLayer& layer : linear_layers(*shape, blocks_of(parameters)))
      facts.bytes += 2 * first_rows(layer.shape, parameters).elements();
    return facts;
  }
  bool has_scales = false;
  for_each_read_tensor(parameters, facts.remarks, [&](const TensorView& tensor) {
    check_tensor(tensor, parameters, facts);
    has_scales = has_scales || scale_cols(tensor) > 0 || !tensor.beside.empty();
  });
  if (facts.bytes_beside > 0) facts.remarks.push_back(remark_on_beside(facts.bytes_beside));
  if (is_joined(parameters) && has_scales) throw DatasetError(kScalesAreNotJoined);
  return facts;
}

Dataset load_model(const SourceRequest& request) {
  const Parameters parameters(kModelSource, request);
  expect_known_type(parameters, kModelSource.id);
  const std::string& model = parameters.text("model");
  Dataset dataset;
  if (const std::optional<ModelShape> shape = shape_of(model)) {
    for (const LinearLayer& layer : linear_layers(*shape, blocks_of(parameters))) {
      Matrix matrix = llm_like_weights(first_rows(layer.shape, parameters), request.seed, int(dataset.layers.size()));
      matrix.name = layer.name;
      dataset.layers.push_back(prepared(std::move(matrix), parameters));
    }
  } else {
    std::vector<std::string> remarks;
    for_each_read_tensor(parameters, remarks,
                         [&](const TensorView& tensor) { append_prepared(tensor, parameters, dataset); });
  }
  if (is_joined(parameters)) join_layers(dataset);
  dataset.initial_vector = draw_initial_vector(request.seed, dataset.layers.front().shape.cols);
  return dataset;
}

}  // namespace

std::vector<WeightLayer> model_layers(const std::string& model, WeightLayers& facts) {
  std::vector<WeightLayer> layers;
  const std::optional<ModelShape> shape = shape_of(model);
  facts.drawn = shape.has_value();
  if (shape)
    for (const LinearLayer& layer : linear_layers(*shape, 0))
      layers.push_back({layer.name, layer.kind, layer.shape, "BF16", 2 * layer.shape.elements()});
  else
    for_each_tensor(model, 0, facts.remarks, [&](const TensorView& tensor) { append_layers(tensor, layers, facts); });
  return layers;
}

}  // namespace ecmv::datasets
