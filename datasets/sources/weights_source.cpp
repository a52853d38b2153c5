// Source `weights`: the matrices of a file or folder of any format that is read; `safetensors` and `npy` take that one
// format. Without a pattern it takes every int8 matrix, or, if there are none, every float matrix; a file with neither
// is an error that says what there is. A tensor that the pattern names may have any element type, but must be a matrix,
// so that nothing requested is skipped silently. Nor is a matrix of blocks that are not unpacked.
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

constexpr ParameterInfo kWeightsParameters[] = {kFileOrFolder, kTensors, kRows, kRoundTo};
constexpr ParameterInfo kSafetensorsParameters[] = {kFile, kTensors, kRows, kRoundTo};
constexpr ParameterInfo kNpyParameters[] = {kFile, kRows, kRoundTo};

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

bool is_matrix_of_unread_blocks(const TensorView& tensor) {
  const BlockFormat* const blocks = find_block_format(tensor.dtype);
  return blocks != nullptr && blocks->bits == 0 && tensor.shape.size() >= 2;
}

// The requested tensors; not all of them need to be matrices.
std::vector<const TensorView*> select_tensors(const std::vector<TensorView>& all, const std::string& pattern) {
  std::vector<const TensorView*> tensors;
  const Pattern wanted(pattern);
  Elements elements = Elements::floats;
  for (const TensorView& tensor : all)
    if (why_no_matrices(tensor, Elements::int8).empty()) elements = Elements::int8;
  for (const TensorView& tensor : all) {
    if (pattern.empty() && is_matrix_of_unread_blocks(tensor))
      throw DatasetError("The tensor \"" + tensor.name + "\" has elements of type " + tensor.dtype +
                         ", which are not read; the parameter \"tensors\" can choose others.");
    if (pattern.empty() && !why_no_matrices(tensor, elements).empty()) continue;
    if (tensor.name.size() > kMaxMatchedName || !wanted.found_in(tensor.name)) continue;
    tensors.push_back(&tensor);
  }
  if (!tensors.empty()) return tensors;
  if (!pattern.empty()) throw DatasetError("No tensor's name matches \"" + pattern + "\".");
  if (all.empty()) throw DatasetError("The file holds no tensors.");
  const TensorView& first = all.front();
  std::string reason = why_no_matrices(first, Elements::any);
  if (reason.empty()) reason = why_no_matrices(first, Elements::floats) + "; the parameter \"tensors\" can ask for it";
  throw DatasetError("None of the " + std::to_string(all.size()) +
                     " tensors is a matrix of int8 or of floats; the first, \"" + first.name + "\", is not because " +
                     reason + ".");
}

// Calls use(the tensors that the request means) while the files are open.
template <const DataSource& source>
void with_tensors(const SourceRequest& request, const auto& use) {
  const Parameters parameters(source, request);
  const std::string& path = parameters.text("file");
  expect_known_type(parameters, source.id);
  const WeightFiles files = open_weights(path, source.id == "weights" ? "" : source.id);
  try {
    use(select_tensors(files.tensors, parameters.text("tensors")), parameters);
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
  with_tensors<source>(request, [&](const std::vector<const TensorView*>& tensors, const Parameters&) {
    for (const TensorView* tensor : tensors) check_tensor(*tensor, facts);
  });
  return facts;
}

template <const DataSource& source>
Dataset load(const SourceRequest& request) {
  Dataset dataset;
  with_tensors<source>(request, [&](const std::vector<const TensorView*>& tensors, const Parameters& parameters) {
    for (const TensorView* tensor : tensors) append_prepared(*tensor, parameters, dataset);
  });
  dataset.initial_vector = draw_initial_vector(request.seed, dataset.layers.front().shape.cols);
  return dataset;
}

}  // namespace

std::vector<WeightLayer> file_layers(const std::string& path) {
  std::vector<WeightLayer> layers;
  SourceRequest request;
  request.texts = {{"file", path}};
  with_tensors<kWeightsSource>(request, [&](const std::vector<const TensorView*>& tensors, const Parameters&) {
    for (const TensorView* tensor : tensors) append_layers(*tensor, layers);
  });
  return layers;
}

}  // namespace ecmv::datasets
