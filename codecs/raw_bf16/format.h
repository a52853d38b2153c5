// Stored bytes of raw_bf16, version 1: one section, the elements as they are, row-major, no padding. 16 bits an
// element.
#pragma once

#include <cstdint>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::raw_bf16 {

inline constexpr int kElements = 0;  // section number

inline const uint16_t* elements_of(const CompressedView& matrix) {
  return reinterpret_cast<const uint16_t*>(matrix.sections[kElements].bytes.data());
}

}  // namespace ecmv::codecs::raw_bf16
