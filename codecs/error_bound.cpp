// Checks that decoded elements keep the bound of a lossy codec, element by element, as doubles.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "codecs/codec.h"
#include "datasets/numbers.h"

namespace ecmv::codecs {
namespace {

std::string shown(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

datasets::Shape shape_in_bytes(const datasets::MatrixView& matrix) {
  return {matrix.shape.rows, matrix.shape.cols * datasets::element_bytes(matrix.type)};
}

BoundCheck check_bound(const datasets::MatrixView& source, std::span<const std::byte> decoded,
                       const ErrorBound& bound) {
  const int64_t elements = source.shape.elements(), cols = std::max<int64_t>(1, source.shape.cols);
  const datasets::MatrixView result{source.shape, source.type, decoded};
  BoundCheck check;
  if (static_cast<int64_t>(decoded.size()) != elements * datasets::element_bytes(source.type)) {
    check.violation = "The decoded matrix has " + std::to_string(decoded.size()) + " bytes, which is not its size.";
    return check;
  }
  constexpr int64_t kPiece = 4096;
  double wanted[kPiece], got[kPiece];
  for (int64_t first = 0; first < elements; first += kPiece) {
    const int64_t count = std::min(kPiece, elements - first);
    datasets::read_numbers(source, first, {wanted, static_cast<size_t>(count)});
    datasets::read_numbers(result, first, {got, static_cast<size_t>(count)});
    for (int64_t i = 0; i < count; ++i) {
      if (wanted[i] == got[i] || (std::isnan(wanted[i]) && std::isnan(got[i]))) continue;
      const double allowed = std::max(bound.relative * std::fabs(wanted[i]), bound.absolute);
      const double error = std::fabs(got[i] - wanted[i]);
      if (!(error <= allowed) || !std::isfinite(wanted[i])) {
        check.violation = "The element at row " + std::to_string((first + i) / cols) + ", column " +
                          std::to_string((first + i) % cols) + " is " + shown(wanted[i]) + " and was decoded as " +
                          shown(got[i]) + ", more than " + shown(allowed) + " beside it.";
        return check;
      }
      check.used = std::max(check.used, error / allowed);
    }
  }
  return check;
}

}  // namespace ecmv::codecs
