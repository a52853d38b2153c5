// Own elementary functions for the arguments that occur, accurate to a few 2^-53: the logarithm by the series of atanh
// after splitting off the exponent, sine and cosine by their series within an eighth of a turn.
#include "datasets/sources/normal_draws.h"

#include <Random123/philox.h>

#include <cmath>

namespace ecmv::datasets {
namespace {

// ln x for 0 < x <= 1.
double exact_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < 0x1.6a09e667f3bcdp-1) {       // then into [sqrt 1/2, sqrt 2)
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;  // square < 0.03
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return exponent * 0x1.62e42fefa39efp-1 + 2 * s * sum;
}

// Sine and cosine of `turns` of a whole circle, 0 <= turns < 1.
std::array<double, 2> exact_sine_cosine(double turns) {
  const double quarters = std::floor(turns * 4 + 0.5);
  const double x = (turns - quarters / 4) * 0x1.921fb54442d18p+2, square = x * x;  // |x| <= pi / 4
  double sine = 1, cosine = 1;
  for (int k = 19; k >= 3; k -= 2) sine = 1 - sine * square / (k * (k - 1));
  for (int k = 20; k >= 2; k -= 2) cosine = 1 - cosine * square / (k * (k - 1));
  sine *= x;
  switch (int(quarters) % 4) {
    case 0: return {sine, cosine};
    case 1: return {cosine, -sine};
    case 2: return {-sine, -cosine};
    default: return {-cosine, sine};
  }
}

}  // namespace

std::array<uint64_t, 2> random_words(uint64_t seed, uint32_t layer, DrawPurpose purpose, uint64_t index) {
  const r123::Philox4x32::key_type key{{uint32_t(seed), uint32_t(seed >> 32)}};
  const r123::Philox4x32::ctr_type counter{{uint32_t(index), uint32_t(index >> 32), layer, uint32_t(purpose)}};
  const auto words = r123::Philox4x32()(counter, key);
  return {uint64_t(words[1]) << 32 | words[0], uint64_t(words[3]) << 32 | words[2]};
}

double uniform_of(uint64_t word) { return double(word >> 11) * 0x1p-53; }

std::array<double, 2> normal_pair(const std::array<uint64_t, 2>& words) {
  const double radius = std::sqrt(-2 * exact_log(1 - uniform_of(words[0])));
  const auto [sine, cosine] = exact_sine_cosine(uniform_of(words[1]));
  return {radius * cosine, radius * sine};
}

}  // namespace ecmv::datasets
