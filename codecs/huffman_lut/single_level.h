// The layout `single_level` of huffman_lut: encoder and reference decoder. See format.h and README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "codecs/codec.h"

namespace ecmv::codecs::huffman_lut::single_level {

std::string refuses(datasets::MatrixView matrix, const Settings& settings);
CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings);
void decode(const CompressedView& compressed, std::span<std::byte> out);
int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings);

}  // namespace ecmv::codecs::huffman_lut::single_level
