// Stored bytes of raw_f8, version 1: one section, the elements as they are, row-major, no padding. 8 bits an element.
#pragma once

#include <cstdint>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::raw_f8 {

inline constexpr int kElements = 0;  // section number

inline const uint8_t* elements_of(const CompressedView& matrix) {
  return reinterpret_cast<const uint8_t*>(matrix.sections[kElements].bytes.data());
}

}  // namespace ecmv::codecs::raw_f8
