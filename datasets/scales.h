// Scales: a quantised matrix's elements are multiplied by them to give the numbers that they represent. There is one
// scale for the tensor, for a row, or for a group of columns of a row. Scales are stored beside the elements and
// counted with them, and a product is the sum over the groups of scale * (q . x). Groups of some files also have a
// minimum, which is added to each of their numbers.
//
// Every number is a float32. element * scale is one exactly: the types below have so few bits that their product has at
// most 24, and quantisers keep both far from float32's ends. With a minimum the number is the float32 nearest to the
// exact sum, so one addition in float32 makes it, fused with the multiplication or not. Multiplying with the numbers
// rounds nothing else before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "datasets/matrix.h"

namespace ecmv::datasets {

enum class ScaleType : uint8_t {
  bf16,  // 16 bits as f16, but float32's range: no weights are too small or too large for it
  e4m3,
  e8m0,  // a power of two: its exponent and 127
  f16,   // as files have them; finite
};

struct Scales {
  ScaleType type = ScaleType::bf16;
  int64_t rows = 0;        // 1: all rows share one set; 0: there are none, and elements are the numbers themselves
  int64_t groups = 1;      // scales of a row
  int64_t group_cols = 0;  // columns that share one; the last group of a row may have fewer
  float factor = 1;  // multiplies every scale: the scale of the tensor above its blocks, and the unit of the elements
  bool has_minimums = false;      // of f16
  std::vector<std::byte> stored;  // [rows, groups] of `type`, as many minimums, then whatever else is stored of them

  bool empty() const { return rows == 0; }
  // Whether there is at most one scale a row, a bf16: a product can then apply it to its sum.
  bool one_a_row() const { return groups == 1 && type == ScaleType::bf16 && factor == 1; }
  // The scales of a row, [groups].
  void of_row(int64_t row, std::span<float> out) const;
  // The minimums of a row, [groups]. Call it only if there are some.
  void minimums_of_row(int64_t row, std::span<float> out) const;
};

// The numbers of a row: the elements times their scales, plus their minimums; without scales the elements themselves.
void read_row(const MatrixView& matrix, const Scales& scales, int64_t row, std::span<double> out);

}  // namespace ecmv::datasets
