// Encodes an array, decodes the result again and compares.
#pragma once

#include <string>

#include "codecs/registry.h"
#include "experiments/library/handles.h"

namespace ecmv::library {

// Parses "lanes=32,prob_bits=12"; other settings get the codec's defaults. Throws Failure.
backends::Settings parse_settings(const codecs::CodecEntry& entry, const std::string& text);

// Throws Failure if the codec refuses the matrix, does not reproduce it, or stores more than it declares.
backends::CompressedMatrix encode_and_compare(const codecs::CodecEntry& entry, const datasets::MatrixView& matrix,
                                              const backends::Settings& settings);

}  // namespace ecmv::library
