// What float products are held to: sums in double precision, far more exact than float32, and how far float32 sums may
// lie from them. A kernel adds in any order, so its result is not one number; the bound follows from the number of
// roundings (ProductRounding of kernel.h). Made by plain loops from the plain elements, rows split over all threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "datasets/scales.h"

namespace ecmv::backends {

struct ExactProduct {
  datasets::Shape shape;
  int batch = 0;
  int64_t terms = 0;         // products of a sum that are not zero by a zero of the token, of the token with the most
  std::string refused;       // why there is no such product: NaN, infinities, or sums that float32 does not hold
  std::vector<double> sums;  // [batch, rows]: W x
  std::vector<double> magnitudes;         // [batch, rows]: sums of |w| |x|
  std::vector<double> x_magnitudes;       // [batch]: sums of |x|
  std::vector<double> scales = {};        // [rows]: the largest magnitude of a row's scales; empty where there are none
  std::vector<double> w_magnitudes = {};  // [rows]: sums of |w|
};

// "" if products of such matrices are defined here, otherwise why not, as a sentence. float32 must hold every element's
// number exactly, which leaves out the types of 32 and 64 bits but f32.
std::string why_no_float_product(const datasets::MatrixView& matrix);

// `tokens`: [batch, cols]. Only for matrices that why_no_float_product lets pass. `scales`: W is the elements times
// these, and minimums, all of it numbers of float32 (datasets/scales.h); null: the elements.
ExactProduct exact_product(const datasets::MatrixView& matrix, std::span<const float> tokens, int batch,
                           const datasets::Scales* scales = nullptr);

// The products of these tokens of `exact`, in this order; a token may come again.
ExactProduct chosen_tokens(const ExactProduct& exact, std::span<const int> tokens);

// n of ProductRounding.
double roundings_of(const ProductRounding& rounding, int64_t terms);

// A rounding that allows whatever one of the two does: of ranks whose parts of a product round differently.
ProductRounding looser_of(const ProductRounding& one, const ProductRounding& other);

// How far a result may lie from its exact sum: (g + narrowing) (magnitude + offset x_magnitude) as in ProductRounding,
// terms * 2^-149 for products below float32's normal numbers, and what double sums may be off themselves. A product
// with zero is exact, and so is adding it, so only `terms` of the columns count. A kernel that multiplies elements and
// scales its sum by `scale` scales the offset and the small products, too, and may round once more below the normal
// numbers. What a kernel flushes (flushes_subnormals) is bounded by w_magnitude, the sum of |w|, and x_magnitude: a
// factor below 2^-126 that counts as zero loses less than 2^-126 times the other one. Of ranks with columns each, a
// product goes through no more roundings on its rank than `terms` allows, and then through an addition less than there
// are ranks: these are more_roundings (pass.cpp). All else is a sum over columns and the same.
double product_bound(const ProductRounding& rounding, int64_t terms, double magnitude, double x_magnitude,
                     double scale = 1, double w_magnitude = 0);

struct ProductCheck {
  std::string violation;  // "" if every result keeps the bound, otherwise the first that does not, as a sentence
  double used = 0;        // the largest error as a part of its bound
};
// `got`: [tokens, rows] for at most exact.batch tokens, the first ones.
ProductCheck check_product(std::span<const float> got, const ExactProduct& exact, const ProductRounding& rounding);

}  // namespace ecmv::backends
