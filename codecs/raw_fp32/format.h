// Stored bytes of raw_fp32, version 1: one section, every bf16 element as a little-endian float32, row-major, no
// padding; 32 bits an element. The element is the upper half, and the lower half is 0.
#pragma once

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::raw_fp32 {

inline constexpr int kElements = 0;  // section number

inline const float* elements_of(const CompressedView& matrix) {
  return reinterpret_cast<const float*>(matrix.sections[kElements].bytes.data());
}

}  // namespace ecmv::codecs::raw_fp32
