// Stored bytes of raw_int8, version 1: one section, the elements as they are, row-major, no padding. 8 bits an element.
#pragma once

namespace ecmv::codecs::raw_int8 {

inline constexpr int kElements = 0;  // section number

}  // namespace ecmv::codecs::raw_int8
