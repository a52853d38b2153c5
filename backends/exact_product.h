// The reference for float products: sums in double precision, far more exact than float32, and how far float32 sums may
// lie from them. A kernel adds in any order, so its result is not one number; the bound follows from the number of
// roundings (ProductRounding of kernel.h). Plain loops over the plain elements compute it, with rows split over all
// threads.
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
  int64_t terms = 0;         // nonzero products in a sum (a zero of the token gives none), for the token with the most
  std::string refused;       // why there is no such product: NaN, infinities, or sums beyond float32
  std::vector<double> sums;  // [batch, rows]: W x
  std::vector<double> magnitudes;         // [batch, rows]: sums of |w| |x|
  std::vector<double> norms;              // [batch, rows]: square roots of the sums of (w x)^2
  std::vector<double> x_magnitudes;       // [batch]: sums of |x|
  std::vector<double> scales = {};        // [rows]: the largest magnitude of a row's scales; empty without scales
  std::vector<double> w_magnitudes = {};  // [rows]: sums of |w|
};

// "" if products of such matrices are defined here, otherwise the reason as a sentence. float32 must hold every
// element's number exactly, which leaves out the types of 32 and 64 bits except f32.
std::string why_no_float_product(const datasets::MatrixView& matrix);

// The product with `tokens` [batch, cols], for matrices that why_no_float_product allows. `scales`: W is the elements
// times these scales, with the minimums, all in float32 numbers (datasets/scales.h); null: W is the elements.
ExactProduct exact_product(const datasets::MatrixView& matrix, std::span<const float> tokens, int batch,
                           const datasets::Scales* scales = nullptr);

// The products of these tokens of `exact`, in this order; tokens may repeat.
ExactProduct chosen_tokens(const ExactProduct& exact, std::span<const int> tokens);

// Gives these columns of `tokens` [batch, cols] other numbers, values [batch, columns], and changes `exact` as that
// does.
void change_columns(ExactProduct& exact, const datasets::MatrixView& matrix, std::span<float> tokens,
                    std::span<const int64_t> columns, std::span<const float> values,
                    const datasets::Scales* scales = nullptr);

// n of ProductRounding.
double roundings_of(const ProductRounding& rounding, int64_t terms);

// A rounding that allows whatever either of two allows, for ranks whose parts of a product round differently.
ProductRounding looser_of(const ProductRounding& one, const ProductRounding& other);

// How far a result may lie from its exact sum:
//   (g + narrowing) (magnitude + offset x_magnitude) as in ProductRounding,
//   + terms * 2^-149 for products below float32's normal numbers,
//   + the error of the double sums themselves,
//   and anything where a kernel that raises elements (raised) may get infinities.
// Only `terms` of the columns count, since a product with zero is exact and so is adding it. A kernel that multiplies
// elements and scales its sum by `scale` also scales the offset and the small products, and may round once more below
// the normal numbers. A kernel that flushes subnormals (flushes_subnormals) is bounded by w_magnitude, the sum of |w|,
// and x_magnitude: a factor below 2^-126 that counts as zero loses less than 2^-126 times the other one. For ranks with
// columns each, a product goes through no more roundings on its rank than `terms` allows, and then through one addition
// less than there are ranks: more_roundings (pass.cpp) counts these.
double product_bound(const ProductRounding& rounding, int64_t terms, double magnitude, double x_magnitude,
                     double scale = 1, double w_magnitude = 0);

struct ProductCheck {
  std::string violation;  // "" if every result keeps the bound, otherwise the first that does not, as a sentence
  double used = 0;        // the largest error relative to its bound
  double typical = 0;     // root mean square of the errors, relative to that of the sums or, where larger, norms
};
// `got`: [tokens, rows] for at most exact.batch tokens, the first ones.
// Results that are all zero keep no bound, however wide, unless all sums are next to nothing. `all_threads`: those of
// the process compare; without, only the thread that calls.
ProductCheck check_product(std::span<const float> got, const ExactProduct& exact, const ProductRounding& rounding,
                           bool all_threads = false);

// The largest ProductCheck::typical of products with random tokens. Roundings to nearest go either way, so n of them
// add up to about sqrt(n / 2) u of the norm; eight times that is far beyond any honest kernel and far below a token or
// a weight that loses bits. Where the kernel states that factors are narrowed, or large terms are added and subtracted
// again, or units cut, more is allowed, but never as much as a missing part of the columns would take.
double typical_error_limit(const ProductRounding& rounding, int64_t terms);

}  // namespace ecmv::backends
