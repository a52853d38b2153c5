// See distortion.h. Rows are added up in order, whichever thread computed them, so any number of threads gives the same
// sum.
#include "datasets/quantisers/distortion.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "datasets/chunks.h"
#include "datasets/numbers.h"

namespace ecmv::datasets {
namespace {

constexpr int64_t kRowsOfChunk = 64;

Distortion of_row(const MatrixView& source, const Scales& source_scales, const MatrixView& got, const Scales& scales,
                  int64_t row, std::vector<double>& expected, std::vector<double>& numbers) {
  read_row(source, source_scales, row, expected);
  read_row(got, scales, row, numbers);
  Distortion sum;
  for (size_t c = 0; c < expected.size(); ++c) {
    const double w = expected[c], v = numbers[c];
    const bool same = w == v || (std::isnan(w) && std::isnan(v));
    double error = same ? 0 : std::fabs(v - w);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (std::isfinite(w)) sum.signal += w * w;
    sum.noise += error * error;
    sum.largest = std::max(sum.largest, error);
  }
  return sum;
}

}  // namespace

double Distortion::snr_db() const {
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

Distortion& Distortion::operator+=(const Distortion& other) {
  signal += other.signal;
  noise += other.noise;
  largest = std::max(largest, other.largest);
  return *this;
}

Distortion distortion(const MatrixView& source, const MatrixView& got, const Scales& scales,
                      const Scales& source_scales) {
  std::vector<Distortion> rows(size_t(source.shape.rows));
  for_each_chunk((source.shape.rows + kRowsOfChunk - 1) / kRowsOfChunk, 0, [&](int64_t chunk) {
    std::vector<double> expected(size_t(source.shape.cols)), numbers(size_t(source.shape.cols));
    for (int64_t row = chunk * kRowsOfChunk; row < std::min(source.shape.rows, (chunk + 1) * kRowsOfChunk); ++row)
      rows[size_t(row)] = of_row(source, source_scales, got, scales, row, expected, numbers);
  });
  Distortion sum;
  for (const Distortion& row : rows) sum += row;
  return sum;
}

}  // namespace ecmv::datasets
