// The sentences with which kernels of all backends refuse elements that are stored as they are, or as codes.
#pragma once

#include "codecs/quad_huffman/format/header.h"

namespace ecmv::codecs::quad_huffman {

inline constexpr const char* kRefusesPlain =
    "The elements are stored as they are, for which there is the kernel plain.";
inline constexpr const char* kRefusesCodes = "The elements are stored as codes.";

}  // namespace ecmv::codecs::quad_huffman
