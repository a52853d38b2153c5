// Computes the tables from densities. Only + - * / and exact scalings by powers of two lead to the thresholds, so every
// platform with IEEE doubles (and no fused or reordered arithmetic) computes the same ones; the frozen hashes of
// tests/datasets check this. Errors stay below 2^-48, the unit of the tables: the exponential and the tail are accurate
// to a few 2^-53 relative (compared with libm in the tests).
#include "datasets/sources/distributions.h"

#include <algorithm>
#include <cmath>

#ifdef __FAST_MATH__
#error "The tables of the synthetic sources need IEEE arithmetic: compile without -ffast-math."
#endif

namespace ecmv::datasets {
namespace {

// e^x for |x| <= 700: x = n ln 2 + r with |r| <= 0.35, then the Taylor series of e^r and a scaling by 2^n.
double exact_exp(double x) {
  constexpr double kLn2High = 0x1.62e42feep-1;  // 30 leading bits: n * kLn2High is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const double n = std::floor(x * 0x1.71547652b82fep+0 + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double sum = 1;
  for (int k = 18; k >= 1; --k) sum = 1 + sum * r / k;
  return std::ldexp(sum, int(n));
}

// P(N(0,1) > x) for x >= 0.
double normal_tail(double x) {
  constexpr double kInverseRoot2Pi = 0x1.9884533d43651p-2;
  if (x > 37) return 0;  // below 1e-299
  const double density = kInverseRoot2Pi * exact_exp(-0.5 * x * x);
  if (x < 3) {
    // 1/2 - density * (x + x^3/3 + x^5/(3*5) + ...)
    double term = x, sum = x;
    for (int k = 3; k < 200; k += 2) {
      term = term * x * x / k;
      sum += term;
    }
    return 0.5 - density * sum;
  }
  // density / (x + 1/(x + 2/(x + 3/(x + ...)))); at x = 3, 200 steps are far past convergence.
  double fraction = x;
  for (int k = 200; k >= 1; --k) fraction = x + k / fraction;
  return density / fraction;
}

uint64_t to_units(double probability) { return uint64_t(std::floor(probability * double(kProbabilityOne) + 0.5)); }

// Table of a symmetric continuous distribution rounded to integers and clipped to +-127; tail(x) is
// P(X > x) for x > 0. Both sides are built from the tail, so the table is exactly symmetric.
template <typename Tail>
CumulativeTable rounded_symmetric_table(Tail tail) {
  CumulativeTable upper{};
  upper[0] = 0;  // -128 is never drawn
  for (int v = 0; v < 127; ++v) {
    const uint64_t above = to_units(tail(v + 0.5));  // P(element > v) = P(element < -v)
    upper[size_t(v + 128)] = kProbabilityOne - above;
    upper[size_t(-v - 1 + 128)] = above;
  }
  upper[255] = kProbabilityOne;
  return upper;
}

}  // namespace

CumulativeTable gaussian_table(double sigma, int clip) {
  CumulativeTable upper = rounded_symmetric_table([&](double x) { return normal_tail(x / sigma); });
  for (int v = -128; v < 128; ++v) {
    if (v < -clip) upper[size_t(v + 128)] = 0;
    if (v >= clip) upper[size_t(v + 128)] = kProbabilityOne;
  }
  return upper;
}

CumulativeTable laplace_table(double scale) {
  return rounded_symmetric_table([&](double x) { return x / scale > 700 ? 0 : 0.5 * exact_exp(-x / scale); });
}

CumulativeTable uniform_table(int low, int high) {
  CumulativeTable upper{};
  const uint64_t n = uint64_t(high - low + 1);
  for (int v = -128; v < 128; ++v) {
    const uint64_t values = uint64_t(std::clamp(v - low + 1, 0, int(n)));
    upper[size_t(v + 128)] = kProbabilityOne / n * values + kProbabilityOne % n * values / n;
  }
  return upper;
}

CumulativeTable two_symbols_table(int a, int b, double probability_b) {
  const uint64_t units_b = to_units(probability_b);
  CumulativeTable upper{};
  for (int v = -128; v < 128; ++v) {
    upper[size_t(v + 128)] = (v >= b ? units_b : 0) + (v >= a ? kProbabilityOne - units_b : 0);
  }
  return upper;
}

CumulativeTable ternary_table(double probability_zero) {
  const uint64_t zero = to_units(probability_zero), minus = (kProbabilityOne - zero) / 2;
  CumulativeTable upper{};
  for (int v = -1; v < 128; ++v) upper[size_t(v + 128)] = v < 0 ? minus : v < 1 ? minus + zero : kProbabilityOne;
  return upper;
}

double normal_quantile(double probability) {
  const double tail = std::min(probability, 1 - probability);
  double low = 0, high = 40;  // of the upper half
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (normal_tail(middle) > tail ? low : high) = middle;
  }
  return probability < 0.5 ? -high : high;
}

double exact_exp2(double bits) { return exact_exp(bits * 0x1.62e42fefa39efp-1); }

}  // namespace ecmv::datasets
