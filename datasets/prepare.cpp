// See prepare.h.
#include "datasets/prepare.h"

#include <cstring>

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
  if (parameters.has("quantise_bits")) matrix = quantise(matrix, parameters.integer("quantise_bits"));
  return matrix;
}

}  // namespace ecmv::datasets
