// See prepare.h.
#include "datasets/layers/prepare.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "datasets/layers/unpack.h"
#include "datasets/numbers.h"

namespace ecmv::datasets {
namespace {

// Floats of 8 bits are numbers of bf16, too.
bool is_rounded(ElementType type) {
  using enum ElementType;
  return type == f32 || type == f16 || type == f64 || type == f8_e4m3 || type == f8_e5m2;
}

// The type of the tensor's matrices after kRoundTo.
std::optional<ElementType> prepared_type(const TensorView& tensor, const Parameters& parameters) {
  const auto type = matrix_type(tensor.dtype);
  return type && is_rounded(*type) && parameters.text("type") == "bf16" ? ElementType::bf16 : type;
}

Matrix rounded_to_bf16(const Matrix& matrix) {
  if (!is_rounded(matrix.type))
    throw DatasetError("The matrix \"" + matrix.name + "\" has elements of type " +
                       std::string(element_type_name(matrix.type)) + ", which are not rounded to bf16.");
  Matrix out = matrix;
  out.type = ElementType::bf16;
  out.elements.resize(2 * size_t(matrix.shape.elements()));
  std::vector<double> row(size_t(matrix.shape.cols));
  for (int64_t first = 0; first < matrix.shape.elements(); first += matrix.shape.cols) {
    read_numbers(matrix.view(), first, row);
    for (size_t i = 0; i < row.size(); ++i) {
      const uint16_t bits = nearest_bf16(row[i]);
      std::memcpy(&out.elements[2 * (size_t(first) + i)], &bits, 2);
    }
  }
  out.content_hash = content_hash(out.view());
  return out;
}

// The scales and minimums of the first rows. Of what is not applied, as large a part as of the rows.
Scales first_rows(Scales scales, int64_t rows, int64_t all_rows) {
  if (rows >= all_rows) return scales;
  if (scales.empty()) {
    scales.stored.resize(size_t(int64_t(scales.stored.size()) * rows / all_rows));
    return scales;
  }
  const int64_t width = scales.type == ScaleType::f16 ? 2 : 1;
  const auto bytes_of = [&](int64_t count) { return count * scales.groups * width; };
  std::vector<std::byte> stored;
  for (int part = 0; part < (scales.has_minimums ? 2 : 1); ++part) {
    const auto first = scales.stored.begin() + part * bytes_of(scales.rows);
    stored.insert(stored.end(), first, first + bytes_of(rows));
  }
  scales.stored = std::move(stored);
  scales.rows = rows;
  return scales;
}

}  // namespace

void expect_known_type(const Parameters& parameters, std::string_view source) {
  const std::string& type = parameters.text("type");
  if (!type.empty() && type != "bf16")
    throw DatasetError("The source " + std::string(source) + " rounds floats to bf16 only, not to \"" + type + "\".");
}

Matrix prepared(Matrix matrix, const Parameters& parameters) {
  if (parameters.has("rows") && parameters.integer("rows") < matrix.shape.rows) {
    matrix.shape.rows = parameters.integer("rows");
    matrix.elements.resize(size_t(matrix.shape.elements() * element_bytes(matrix.type)));
    matrix.content_hash = content_hash(matrix.view());
  }
  if (parameters.text("type") == "bf16" && matrix.type != ElementType::bf16) matrix = rounded_to_bf16(matrix);
  return matrix;
}

bool has_wanted_elements(const TensorView& tensor, const Parameters& parameters) {
  const std::string& wanted = parameters.text("elements");
  const auto type = prepared_type(tensor, parameters);
  return wanted.empty() || (type && element_type_name(*type) == wanted);
}

void remark_on(const char* what, const std::vector<const TensorView*>& tensors, const char* end,
               std::vector<std::string>& remarks) {
  if (tensors.empty()) return;
  int64_t bytes = 0;
  for (const TensorView* tensor : tensors) bytes += stored_bytes(*tensor);
  remarks.push_back(std::string(what) + ": " + std::to_string(tensors.size()) +
                    (tensors.size() == 1 ? " tensor, " : " tensors, ") + std::to_string(bytes) + " bytes, such as \"" +
                    tensors.front()->name + "\" of " + tensors.front()->dtype + end + ".");
}

std::string remark_on_beside(int64_t bytes) {
  return "Scales and zero points that the file has in tensors of their own, " + std::to_string(bytes) +
         " bytes, count in every size; products here do not apply them.";
}

void check_tensor(const TensorView& tensor, const Parameters& parameters, SourceFacts& facts) {
  if (!why_no_matrices(tensor, Elements::any).empty()) to_matrices(tensor);  // throws
  const int64_t bytes = tensor_bytes(tensor.name, unpacked_dtype(tensor.dtype), tensor.shape);
  facts.bytes += bytes;
  for (const std::span<const std::byte> one : tensor.beside) facts.bytes_beside += int64_t(one.size());
  const int64_t group = scale_cols(tensor);
  if (group > 0) facts.group_cols = facts.group_cols == 0 ? group : std::min(facts.group_cols, group);
  const ElementType type = *prepared_type(tensor, parameters);
  auto known = std::ranges::find(facts.types, type, &SourceFacts::OfType::type);
  if (known == facts.types.end())
    known = facts.types.insert(known, {type, matrices_of(tensor.name, tensor.shape).shape.cols, 0});
  known->bytes += bytes;
}

void append_prepared(const TensorView& tensor, const Parameters& parameters, Dataset& dataset) {
  std::vector<Matrix> matrices = to_matrices(tensor);  // throws for a tensor that is no matrix
  std::vector<Scales> scales = scales_of_matrices(tensor);
  if (!scales.empty()) dataset.scales.resize(dataset.layers.size());
  for (Scales& one : scales) {
    const int64_t all_rows = matrices.front().shape.rows;
    const int64_t rows = parameters.has("rows") ? parameters.integer("rows") : all_rows;
    dataset.scales.push_back(first_rows(std::move(one), rows, all_rows));
  }
  if (tensor.dtype == "U8") dataset.unsigned_layers += int64_t(matrices.size());
  for (Matrix& matrix : matrices) dataset.layers.push_back(prepared(std::move(matrix), parameters));
  if (!dataset.scales.empty()) dataset.scales.resize(dataset.layers.size());
  expect_few_matrices(dataset.layers.size());
}

}  // namespace ecmv::datasets
