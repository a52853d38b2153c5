// See prepare.h.
#include "datasets/layers/prepare.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "datasets/layers/unpack.h"
#include "datasets/numbers.h"

namespace ecmv::datasets {
namespace {

Matrix rounded_to_bf16(const Matrix& matrix) {
  if (matrix.type != ElementType::f32 && matrix.type != ElementType::f16 && matrix.type != ElementType::f64)
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

// The scales and minimums of the blocks in the first rows.
Scales first_rows(Scales scales, int64_t rows) {
  const auto bytes_of = [&](int64_t count) { return count * scales.groups * int64_t{sizeof(uint16_t)}; };
  if (rows >= scales.rows) return scales;
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

void check_tensor(const TensorView& tensor, SourceFacts& facts) {
  if (!why_no_matrices(tensor, Elements::any).empty()) to_matrices(tensor);  // throws
  facts.bytes += tensor_bytes(tensor.name, unpacked_dtype(tensor.dtype), tensor.shape);
  if (const BlockFormat* format = find_block_format(tensor.dtype); format != nullptr)
    facts.group_cols = facts.group_cols == 0 ? format->elements : std::min(facts.group_cols, format->elements);
}

void append_prepared(const TensorView& tensor, const Parameters& parameters, Dataset& dataset) {
  std::vector<Matrix> matrices = to_matrices(tensor);  // throws for a tensor that is no matrix
  std::vector<Scales> scales = scales_of_matrices(tensor);
  if (!scales.empty()) dataset.scales.resize(dataset.layers.size());
  for (Scales& one : scales) {
    const int64_t rows = parameters.has("rows") ? parameters.integer("rows") : one.rows;
    dataset.scales.push_back(first_rows(std::move(one), rows));
  }
  for (Matrix& matrix : matrices) dataset.layers.push_back(prepared(std::move(matrix), parameters));
  if (!dataset.scales.empty()) dataset.scales.resize(dataset.layers.size());
  expect_few_matrices(dataset.layers.size());
}

}  // namespace ecmv::datasets
