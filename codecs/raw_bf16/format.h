// Stored bytes of raw_bf16, version 1: one section, the elements as they are, row-major, no padding. 16 bits an element.
#pragma once

namespace ecmv::codecs::raw_bf16 {

inline constexpr int kElements = 0;  // section number

}  // namespace ecmv::codecs::raw_bf16
