// Source `safetensors`: the matrices of a file. Without a pattern every I8 or U8 tensor of two or three dimensions is
// taken, or where there is none every BF16, F16 and F32 one, and a file with neither is an error that says what there
// is. A tensor that the pattern names may have any element type, but must be a matrix: what was asked for is never
// skipped silently.
#include "datasets/file_bytes.h"
#include "datasets/parameters.h"
#include "datasets/pattern.h"
#include "datasets/quantise.h"
#include "datasets/safetensors.h"
#include "datasets/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr ParameterInfo kSafetensorsParameters[] = {
    {.name = "file", .help = "path of the file", .is_text = true, .required = true},
    {.name = "tensors",
     .help = "regular expression (ECMAScript) found in the names of the wanted tensors; if absent all int8 matrices, "
             "or all of floats "
             "where there are no others",
     .is_text = true},
    kQuantiseBits,
};

Dataset load_safetensors(const SourceRequest& request);
void check_safetensors(const SourceRequest& request);

}  // namespace

extern const DataSource kSafetensorsSource{"safetensors",
                                           "int8 or float matrices of a safetensors file",
                                           false,
                                           kSafetensorsParameters,
                                           load_safetensors,
                                           1,
                                           check_safetensors};

namespace {

// The library's matcher recurses once a character; longer names are not what anybody calls a weight.
constexpr size_t kMaxMatchedName = 1024;

// Those that are asked for; not all of them need to be matrices.
std::vector<const TensorView*> select_tensors(const Safetensors& file, const std::string& pattern) {
  std::vector<const TensorView*> tensors;
  const Pattern wanted(pattern);
  Elements elements = Elements::floats;
  for (const TensorView& tensor : file.tensors)
    if (why_no_matrices(tensor, Elements::int8).empty()) elements = Elements::int8;
  for (const TensorView& tensor : file.tensors) {
    if (pattern.empty() && !why_no_matrices(tensor, elements).empty()) continue;
    if (tensor.name.size() > kMaxMatchedName || !wanted.found_in(tensor.name)) continue;
    tensors.push_back(&tensor);
  }
  if (!tensors.empty()) return tensors;
  if (!pattern.empty()) throw DatasetError("No tensor's name matches \"" + pattern + "\".");
  if (file.tensors.empty()) throw DatasetError("The file holds no tensors.");
  const TensorView& first = file.tensors.front();
  throw DatasetError("None of the " + std::to_string(file.tensors.size()) +
                     " tensors is a matrix of int8 or of floats; the first, \"" + first.name + "\", is not because " +
                     why_no_matrices(first, Elements::any) + ".");
}

std::vector<Matrix> matrices_of(const std::vector<const TensorView*>& tensors) {
  std::vector<Matrix> matrices;
  for (const TensorView* tensor : tensors) {
    for (Matrix& matrix : to_matrices(*tensor)) matrices.push_back(std::move(matrix));
    expect_few_matrices(matrices.size());
  }
  return matrices;
}

// Calls use(the tensors that the request means) while the file is open.
void with_tensors(const SourceRequest& request, const auto& use) {
  const Parameters parameters(kSafetensorsSource, request);
  const std::string& path = parameters.text("file");
  const FileBytes file(path);
  try {
    const Safetensors content = parse_safetensors(file.bytes());
    use(select_tensors(content, parameters.text("tensors")));
  } catch (const PatternError& error) {
    throw DatasetError("The parameter \"tensors\" of the source safetensors, \"" + parameters.text("tensors") +
                       "\", is not a regular expression (" + error.what() + ").");
  } catch (const DatasetError& error) {
    throw DatasetError("In the file \"" + path + "\": " + error.what());
  }
}

void check_safetensors(const SourceRequest& request) {
  with_tensors(request, [](const std::vector<const TensorView*>& tensors) {
    for (const TensorView* tensor : tensors)
      if (!why_no_matrices(*tensor, Elements::any).empty()) to_matrices(*tensor);  // throws
  });
}

Dataset load_safetensors(const SourceRequest& request) {
  Dataset dataset;
  with_tensors(request, [&](const std::vector<const TensorView*>& tensors) { dataset.layers = matrices_of(tensors); });
  const Parameters parameters(kSafetensorsSource, request);
  if (parameters.has("quantise_bits"))
    for (Matrix& matrix : dataset.layers) matrix = quantise(matrix, parameters.integer("quantise_bits"));
  dataset.initial_vector = draw_initial_vector(request.seed, dataset.layers.front().shape.cols);
  return dataset;
}

}  // namespace
}  // namespace ecmv::datasets
