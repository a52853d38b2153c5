// The quantiser of the coding-pairs paper (Liguori 2024, section 3.3), whose formula is recovered from its
// second table. Doubles of basic operations only, so every platform makes the same integers.
#include "datasets/quantise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "datasets/numbers.h"
#include "datasets/quantiser_tools.h"

namespace ecmv::datasets {
namespace {

constexpr int64_t kPiece = 4096;

// visit(first, numbers) for pieces of the matrix, in order.
template <typename Visit>
void visit_numbers(const MatrixView& matrix, Visit visit) {
  double numbers[kPiece];
  for (int64_t first = 0; first < matrix.shape.elements(); first += kPiece) {
    const std::span<double> piece(numbers, size_t(std::min(kPiece, matrix.shape.elements() - first)));
    read_numbers(matrix, first, piece);
    visit(first, piece);
  }
}

}  // namespace

Matrix quantise(const Matrix& matrix, int bits) {
  const std::string who = "The matrix \"" + matrix.name + "\"";
  if (!is_float(matrix.type)) {
    throw DatasetError(who + " has elements of type " + std::string(element_type_name(matrix.type)) +
                       "; only floats are quantised.");
  }
  double largest = 0;
  visit_numbers(matrix.view(), [&](int64_t, std::span<const double> numbers) {
    for (const double number : numbers) {
      if (!std::isfinite(number)) throw DatasetError(who + " holds NaN or infinities and cannot be quantised.");
      largest = std::max(largest, std::fabs(number));
    }
  });
  const double steps = double((1 << bits) - 1), scale = largest > 0 ? steps / largest : 0;
  Matrix result;
  result.name = matrix.name;
  result.shape = matrix.shape;
  result.type = bits <= 7 ? ElementType::i8 : ElementType::i16;
  const size_t width = size_t(element_bytes(result.type));
  result.elements.resize(size_t(matrix.shape.elements()) * width);
  visit_numbers(matrix.view(), [&](int64_t first, std::span<const double> numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto q = int16_t(std::nearbyint(numbers[i] * scale));
      std::memcpy(&result.elements[(size_t(first) + i) * width], &q, width);
    }
  });
  result.row_scale.assign(size_t(matrix.shape.rows), largest > 0 ? float(largest / steps) : 1.0f);
  result.content_hash = content_hash(result.view());
  return result;
}

}  // namespace ecmv::datasets
