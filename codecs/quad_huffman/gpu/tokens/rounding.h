// How products of bf16 and f8 elements round beyond their sums.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "backends/kernel.h"
#include "codecs/quad_huffman/gpu/plan.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Says why products of a matrix that is not plain cannot take its patches; "" if they can.
inline std::string refuses_patches(const backends::CompressedView& matrix) {
  if (header_of(matrix).largest_substitute == 255)
    return "What stands in for an exponent of this matrix is infinite, and would have to be taken away again.";
  return "";
}

// Substitutes for exponents are multiplied too, and their excess in `cols` columns is subtracted again. Elements in
// symbols of eight exponents, and so their sums, are multiplied by a power of two that may be 2^-15.
inline backends::ProductRounding rounding_of_floats(const backends::CompressedView& matrix,
                                                    backends::ProductRounding rounding, int64_t cols) {
  const Header code = header_of(matrix);
  const bool f8 = is_f8(code.form);
  const int largest = code.largest_substitute;
  if (has_exponent_eights(code.symbol_cols, code.form)) rounding.flushes_subnormals = true;
  if (f8 ? matrix.sections[kPatches].bytes.empty() : largest == 0) return rounding;
  rounding.more_roundings += static_cast<int>(4 * cols);
  rounding.offset = std::ldexp(2.0, f8 ? std::max(largest, 1) + 1 - 7 : largest + 1 - 127);
  return rounding;
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
