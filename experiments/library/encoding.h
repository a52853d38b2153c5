// From an array to a compressed matrix that has been decoded again and compared.
#pragma once

#include <string>

#include "codecs/registry.h"
#include "experiments/library/failure.h"

namespace ecmv::library {

// "lanes=32,prob_bits=12" with the codec's defaults for the others. Throws Failure.
backends::Settings parse_settings(const codecs::CodecEntry& entry, const std::string& text);

// Throws Failure: the codec refuses the matrix, does not reproduce it, or stores more than it declares.
backends::CompressedMatrix encode_and_compare(const codecs::CodecEntry& entry, const datasets::MatrixView& matrix,
                                              const backends::Settings& settings);

}  // namespace ecmv::library
