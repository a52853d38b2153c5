// The layout `hierarchical` of huffman_lut (DFloat11's, for int8 symbols): encoder and reference decoder. See
// format.h and README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "codecs/codec.h"

namespace ecmv::codecs::huffman_lut::hierarchical {

std::string refuses(datasets::MatrixView matrix, const Settings& settings);
CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings);
void decode(const CompressedView& compressed, std::span<std::byte> out);
int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings);

}  // namespace ecmv::codecs::huffman_lut::hierarchical
