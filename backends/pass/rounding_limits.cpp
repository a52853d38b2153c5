// See rounding_limits.h.
#include "backends/pass/rounding_limits.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

namespace ecmv::backends {
namespace {

using datasets::ElementType;

// bf16 has 8 significant bits, so one rounding to it is off by 2^-8 at most. Two factors are off by their product.
constexpr double kOneFactor = 0x1p-8, kBothFactors = 2 * kOneFactor + kOneFactor * kOneFactor;

struct Limit {
  ElementType type;
  double of_elements;  // the largest narrowing of the elements: 0 where bf16 holds each of them
  double offset;       // the largest offset
};

// An offset is twice the magnitude of what is multiplied apart from the elements: a zero point, or the code that stands
// in for an element. Codes of 8-bit integers have up to 9 bits and begin anywhere; those of floats are floats.
constexpr Limit kLimits[] = {
    {ElementType::i8, 0, 1024},
    {ElementType::u8, 0, 1024},
    {ElementType::i16, kOneFactor, 0x1p18},  // bf16 holds half of an element's bits
    {ElementType::u16, kOneFactor, 0x1p18},
    {ElementType::f8_e4m3, 0, 1024},    // its exponents end at 2^8
    {ElementType::f8_e5m2, 0, 0x1p17},  // at 2^15
    {ElementType::f16, kOneFactor, 0x1p17},
    {ElementType::bf16, 0, 0x1p129},  // an exponent of the code, which may be any
    {ElementType::f32, kOneFactor, 0x1p129},
};

// Roundings of float32 sums on the way of a product, besides one a column: a second sum of all columns (of a zero
// point, or in the second half of a split factor), and a few for scales and shares. Where a code stands in for
// elements, an offset, its products are added and taken away again: up to four for each column.
constexpr int64_t kFewRoundings = 64, kRoundingsOfOffsets = 4;
// Matrix units cut where others round, and columns are filled up to whole tiles: up to four for each column.
constexpr int64_t kRoundingsOfUnits = 4, kTileCols = 2048, kShares = 1024;

int64_t most_roundings(const ProductRounding& rounding, int64_t cols) {
  if (rounding.unit_cols != 0) return kRoundingsOfUnits * (cols + kTileCols) + kShares;
  return (rounding.offset > 0 ? kRoundingsOfOffsets : 1) * cols + kFewRoundings;
}

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

}  // namespace

std::string why_too_loose(const ProductRounding& rounding, const CompressedView& matrix, Activations activations) {
  const auto limit = std::ranges::find(kLimits, matrix.type, &Limit::type);
  const std::string of = " of products of " + std::string(datasets::element_type_name(matrix.type)) + " elements and " +
                         std::string(activations_name(activations)) + " tokens, and at most ";
  if (limit == std::end(kLimits)) return "There is no bound" + of + "none is allowed.";
  const bool narrows_tokens = activations == Activations::f32;
  const double narrowing = !narrows_tokens ? limit->of_elements : limit->of_elements == 0 ? kOneFactor : kBothFactors;
  if (!(rounding.narrowing >= 0 && rounding.narrowing <= narrowing))
    return "The kernel states a narrowing of " + text_of(rounding.narrowing) + of + text_of(narrowing) + " is allowed.";
  if (!(rounding.offset >= 0 && rounding.offset <= limit->offset))
    return "The kernel states an offset of " + text_of(rounding.offset) + of + text_of(limit->offset) + " is allowed.";
  const int64_t roundings = most_roundings(rounding, matrix.shape.cols);
  if (rounding.more_roundings < 0 || rounding.more_roundings > roundings)
    return "The kernel states " + std::to_string(rounding.more_roundings) + " more roundings" + of +
           std::to_string(roundings) + " are allowed.";
  return {};
}

std::string widening_of(const ProductRounding& rounding) {
  std::string all;
  const auto add = [&](const std::string& part) { all += (all.empty() ? "" : ", ") + part; };
  if (rounding.narrowing > 0) add("narrowing " + text_of(rounding.narrowing));
  if (rounding.offset > 0) add("offset " + text_of(rounding.offset));
  if (rounding.more_roundings > kFewRoundings) add(std::to_string(rounding.more_roundings) + " more roundings");
  return all;
}

}  // namespace ecmv::backends
