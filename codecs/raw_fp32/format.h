// Stored bytes of raw_fp32, version 1: one section, every element as a little-endian float32, row-major, no padding; 32
// bits an element. A bf16 element is the upper half, and the lower half is 0.
#pragma once

#include <cstdint>

#include <string>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::raw_fp32 {

inline constexpr int kElements = 0;  // section number

inline const float* elements_of(const CompressedView& matrix) {
  return reinterpret_cast<const float*>(matrix.sections[kElements].bytes.data());
}

// float32 holds integers up to here exactly. If the sum of |w| * 128 over a row is less, all its partial sums are
// exact, in whatever order a kernel or library adds.
inline constexpr int64_t kExactSums = int64_t{1} << 24;

// Why a product with int8 vectors does not take the matrix; "" if it takes it.
inline std::string why_not_int8(const CompressedView& matrix) {
  return matrix.type == datasets::ElementType::i8 ? "" : "The kernel multiplies int8 elements.";
}

}  // namespace ecmv::codecs::raw_fp32
