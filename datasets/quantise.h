// The step from float weights to integers: linear, symmetric, one scale a matrix.
#pragma once

#include "datasets/source.h"

namespace ecmv::datasets {

// The parameter of every source of float matrices; without it they stay floats.
inline constexpr ParameterInfo kQuantiseBits{
    .name = "quantise_bits",
    .help =
        "N: float matrices become integers round(w (2^N - 1) / max|w|), one maximum a matrix; int8 up to 7 "
        "bits and a sign, then int16",
    .min = 1,
    .max = 15,
    .is_integer = true};

// round(w (2^bits - 1) / max|w|), halves to even; i8 for at most 7 bits, else i16. row_scale holds what one
// step stands for, for every row the same. A matrix of zeros stays zeros, with a step of 1. Throws
// DatasetError for integers, NaN and infinities.
Matrix quantise(const Matrix& matrix, int bits);

}  // namespace ecmv::datasets
