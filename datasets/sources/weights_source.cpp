// Source `weights`: the matrices of a file or folder of any format that is read; `safetensors` and `npy` take that one
// format. Without a pattern it takes every int8 matrix, or, if there are few or none, every float matrix, and says what
// it leaves; a file with neither is an error that says what there is. A tensor that the pattern names may have any
// element type, but must be a matrix, so that nothing requested is skipped silently.
#include "datasets/files/weight_files.h"
#include "datasets/layers/pattern.h"
#include "datasets/layers/prepare.h"
#include "datasets/layers/unpack.h"
#include "datasets/layers/weight_layers.h"
#include "datasets/sources/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr ParameterInfo kFile{.name = "file", .help = "path of the file", .is_text = true, .required = true};
constexpr ParameterInfo kTensors{
    .name = "tensors",
    .help =
        "regular expression (ECMAScript) found in the names of the wanted tensors; if absent all int8 matrices, "
        "or all of floats where there are no others",
    .is_text = true};
constexpr ParameterInfo kFileOrFolder{
    .name = "file", .help = "path of the file or folder", .is_text = true, .required = true};

constexpr ParameterInfo kWeightsParameters[] = {kFileOrFolder, kTensors, kElements, kRows, kRoundTo};
constexpr ParameterInfo kSafetensorsParameters[] = {kFile, kTensors, kElements, kRows, kRoundTo};
constexpr ParameterInfo kNpyParameters[] = {kFile, kElements, kRows, kRoundTo};

template <const DataSource& source>
Dataset load(const SourceRequest& request);
template <const DataSource& source>
SourceFacts check(const SourceRequest& request);

template <const DataSource& source>
constexpr DataSource source_of(std::string_view id, std::string_view summary,
                               std::span<const ParameterInfo> parameters) {
  return {id, summary, false, parameters, load<source>, 1, check<source>};
}

}  // namespace

extern const DataSource kWeightsSource, kSafetensorsSource, kNpySource;
const DataSource kWeightsSource = source_of<kWeightsSource>(
    "weights", "int8 or float matrices of a safetensors, GGUF, ONNX or npy file, or of a Hugging Face folder",
    kWeightsParameters);
const DataSource kSafetensorsSource = source_of<kSafetensorsSource>(
    "safetensors", "int8 or float matrices of a safetensors file", kSafetensorsParameters);
const DataSource kNpySource =
    source_of<kNpySource>("npy", "the matrix, or stack of matrices, of an npy file", kNpyParameters);

namespace {

// The library's matcher recurses once a character; longer names are not what anybody calls a weight.
constexpr size_t kMaxMatchedName = 1024;

int64_t elements_of(const std::vector<TensorView>& all, Elements elements) {
  int64_t count = 0;
  for (const TensorView& tensor : all)
    if (!tensor.is_beside && why_no_matrices(tensor, elements).empty())
      count += tensor_elements(tensor.name, tensor.shape);
  return count;
}

// The type that is taken where nothing is said. A table of bytes in a model of floats is not what the file is about.
Elements usual_elements(const std::vector<TensorView>& all) {
  constexpr int64_t kAtLeastOneIn = 16;
  const int64_t bytes = elements_of(all, Elements::int8);
  return bytes > 0 && bytes >= elements_of(all, Elements::floats) / kAtLeastOneIn ? Elements::int8 : Elements::floats;
}

// The requested tensors; not all of them need to be matrices.
std::vector<const TensorView*> select_tensors(const std::vector<TensorView>& all, const Parameters& parameters,
                                              std::vector<std::string>& remarks) {
  std::vector<const TensorView*> tensors, others;
  const std::string& pattern = parameters.text("tensors");
  const Pattern wanted(pattern);
  const Elements elements = parameters.text("elements").empty() ? usual_elements(all) : Elements::any;
  for (const TensorView& tensor : all) {
    if (pattern.empty() && (tensor.is_beside || !why_no_matrices(tensor, elements).empty())) {
      if (!tensor.is_beside && tensor.shape.size() > 1 && !tensor.bytes.empty()) others.push_back(&tensor);
      continue;
    }
    if (tensor.name.size() > kMaxMatchedName || !wanted.found_in(tensor.name)) continue;
    if (has_wanted_elements(tensor, parameters)) tensors.push_back(&tensor);
  }
  if (!tensors.empty() && parameters.text("elements").empty())
    remark_on("A run leaves out other types", others, "; the parameter \"tensors\" can ask for them", remarks);
  if (!tensors.empty()) return tensors;
  if (const std::string& type = parameters.text("elements"); !type.empty())
    throw DatasetError("No matrix that was asked for has elements of type \"" + type + "\".");
  if (!pattern.empty()) throw DatasetError("No tensor's name matches \"" + pattern + "\".");
  if (all.empty()) throw DatasetError("The file holds no tensors.");
  const TensorView& first = others.empty() ? all.front() : *others.front();
  std::string reason = why_no_matrices(first, Elements::any);
  if (reason.empty()) reason = why_no_matrices(first, Elements::floats) + "; the parameter \"tensors\" can ask for it";
  throw DatasetError("None of the " + std::to_string(all.size()) +
                     " tensors is a matrix of int8 or of floats; the first, \"" + first.name + "\", is not because " +
                     reason + ".");
}

// Calls use(the tensors that the request means) while the files are open.
template <const DataSource& source>
void with_tensors(const SourceRequest& request, std::vector<std::string>& remarks, const auto& use) {
  const Parameters parameters(source, request);
  const std::string& path = parameters.text("file");
  expect_known_type(parameters, source.id);
  const WeightFiles files = open_weights(path, source.id == "weights" ? "" : source.id);
  remarks = files.remarks;
  try {
    use(select_tensors(files.tensors, parameters, remarks), parameters);
  } catch (const PatternError& error) {
    throw DatasetError("The parameter \"tensors\" of the source " + std::string(source.id) + ", \"" +
                       parameters.text("tensors") + "\", is not a regular expression (" + error.what() + ").");
  } catch (const DatasetError& error) {
    throw DatasetError("In the file \"" + path + "\": " + error.what());
  }
}

template <const DataSource& source>
SourceFacts check(const SourceRequest& request) {
  SourceFacts facts;
  with_tensors<source>(request, facts.remarks,
                       [&](const std::vector<const TensorView*>& tensors, const Parameters& parameters) {
                         for (const TensorView* tensor : tensors) check_tensor(*tensor, parameters, facts);
                       });
  if (facts.bytes_beside > 0) facts.remarks.push_back(remark_on_beside(facts.bytes_beside));
  return facts;
}

template <const DataSource& source>
Dataset load(const SourceRequest& request) {
  Dataset dataset;
  std::vector<std::string> remarks;
  with_tensors<source>(request, remarks,
                       [&](const std::vector<const TensorView*>& tensors, const Parameters& parameters) {
                         for (const TensorView* tensor : tensors) append_prepared(*tensor, parameters, dataset);
                       });
  dataset.initial_vector = draw_initial_vector(request.seed, dataset.layers.front().shape.cols);
  return dataset;
}

}  // namespace

std::vector<WeightLayer> file_layers(const std::string& path, WeightLayers& facts) {
  std::vector<WeightLayer> layers;
  SourceRequest request;
  request.texts = {{"file", path}};
  with_tensors<kWeightsSource>(request, facts.remarks,
                               [&](const std::vector<const TensorView*>& tensors, const Parameters&) {
                                 for (const TensorView* tensor : tensors) append_layers(*tensor, layers, facts);
                               });
  return layers;
}

}  // namespace ecmv::datasets
