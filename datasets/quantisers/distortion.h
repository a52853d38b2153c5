// Measures how far a matrix's numbers lie from the numbers that they represent.
#pragma once

#include "datasets/scales.h"

namespace ecmv::datasets {

// Sums of several matrices may be added; the ratio then covers all weights together.
struct Distortion {
  double signal = 0;   // sum of the squares of the source
  double noise = 0;    // sum of the squares of the errors
  double largest = 0;  // magnitude of the largest error

  // 10 log10(signal / noise); infinite without noise.
  double snr_db() const;
  Distortion& operator+=(const Distortion& other);
};

// `got`, with its scales, has the shape of `source`, whose elements may have scales of their own. NaN and infinities of
// the source are no error if they stayed themselves, otherwise an infinite one.
Distortion distortion(const MatrixView& source, const MatrixView& got, const Scales& scales,
                      const Scales& source_scales = {});

}  // namespace ecmv::datasets
