// Cumulative tables of the synthetic sources' distributions, in units of 2^-48. They are computed with the basic IEEE
// operations alone (own exponential, own normal tail), because the mathematical libraries of two platforms differ in
// last digits and the same seed must give the same bytes.
#pragma once

#include "datasets/sources/discrete_sampler.h"

namespace ecmv::datasets {

// N(0, sigma^2) rounded to the nearest integer, clipped to +-clip, at most 127.
CumulativeTable gaussian_table(double sigma, int clip = 127);

// Density exp(-|x| / scale) / (2 scale), rounded to the nearest integer, clipped to +-127.
CumulativeTable laplace_table(double scale);

// Every integer of [low, high] equally likely (to 2^-48); -128 <= low <= high <= 127.
CumulativeTable uniform_table(int low, int high);

// `b` with the given probability, else `a`.
CumulativeTable two_symbols_table(int a, int b, double probability_b);

// 0 with the given probability, else -1 or 1, equally likely (to 2^-48).
CumulativeTable ternary_table(double probability_zero);

// 2^bits, equal on every platform; turns an entropy into a width.
double exact_exp2(double bits);

// x with P(N(0,1) <= x) = probability, 0 < probability < 1; equal on every platform.
double normal_quantile(double probability);

}  // namespace ecmv::datasets
