// Elements as numbers: the values of every element type as doubles, and rounding of numbers to types of 8 and 16 bits.
// Sigma, error bounds and quantisers use them; codecs of floats work on the bit patterns instead.
#pragma once

#include <cstdint>
#include <span>

#include "datasets/matrix.h"

namespace ecmv::datasets {

// The value of a bit pattern; NaN and infinities are the double's.
double bf16_value(uint16_t bits);
double f16_value(uint16_t bits);
double f8_e5m2_value(uint8_t bits);  // IEEE-like: the highest exponent holds infinities and NaN
double f8_e4m3_value(uint8_t bits);  // no infinities; 0x7F and 0xFF are NaN, the greatest value is 448

double f8_e4m3fnuz_value(uint8_t bits);  // as e4m3 and e5m2 with half the values, one zero, and NaN in place of -0
double f8_e5m2fnuz_value(uint8_t bits);
double f8_e8m0_value(uint8_t bits);  // a power of two; 0xFF is NaN

// The nearest bf16, of two equally near ones the even one. Values beyond the greatest become infinite, NaN a quiet NaN.
uint16_t nearest_bf16(double value);
uint16_t nearest_f16(double value);
uint8_t nearest_f8_e5m2(double value);

// The nearest e4m3, of two equally near ones the even one. Values beyond the greatest become the greatest, NaN a NaN.
uint8_t nearest_f8_e4m3(double value);

// Elements first, first + 1, ... of any type; 64-bit integers beyond 2^53 are rounded.
void read_numbers(const MatrixView& matrix, int64_t first, std::span<double> out);

}  // namespace ecmv::datasets
