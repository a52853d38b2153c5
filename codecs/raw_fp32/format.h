// Stored bytes of raw_fp32, version 1: one section, every element as a little-endian float32, row-major, no padding. 32
// bits an element. Of bf16 the upper halves are the elements and the lower ones 0.
#pragma once

#include <cstdint>

#include <string>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::raw_fp32 {

inline constexpr int kElements = 0;  // section number

inline const float* elements_of(const CompressedView& matrix) {
  return reinterpret_cast<const float*>(matrix.sections[kElements].bytes.data());
}

// Integers up to here are float32 exactly. A row whose products stay below it in any partial sum is added without
// rounding, in whatever order a kernel or library adds: sum |w| * 128 of a row must be less.
inline constexpr int64_t kExactSums = int64_t{1} << 24;

// Why a product with int8 vectors does not take the matrix; "" if it does.
inline std::string why_not_int8(const CompressedView& matrix) {
  return matrix.type == datasets::ElementType::i8 ? "" : "The kernel multiplies int8 elements.";
}

}  // namespace ecmv::codecs::raw_fp32
