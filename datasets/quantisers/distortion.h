// How far the numbers of a matrix lie from those that they stand for.
#pragma once

#include "datasets/scales.h"

namespace ecmv::datasets {

// Sums of several matrices add up: then the ratio covers all weights together.
struct Distortion {
  double signal = 0;   // sum of the squares of the source
  double noise = 0;    // sum of the squares of the errors
  double largest = 0;  // magnitude of the largest error

  // 10 log10(signal / noise); infinite without noise.
  double snr_db() const;
  Distortion& operator+=(const Distortion& other);
};

// `got`, with its scales, is of the shape of `source`, whose elements may have scales of their own. NaN and infinities
// that stayed themselves are no error, and a source's that did not are an infinite one.
Distortion distortion(const MatrixView& source, const MatrixView& got, const Scales& scales,
                      const Scales& source_scales = {});

}  // namespace ecmv::datasets
