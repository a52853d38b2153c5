// The layout `segments` of huffman_exponents: encoder and reference decoder, see format.h and README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "codecs/codec.h"

namespace ecmv::codecs::huffman_exponents::segments {

std::string refuses(datasets::MatrixView matrix);
CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings);
void decode(const CompressedView& compressed, std::span<std::byte> out);
int64_t max_stored_bytes(datasets::Shape shape_in_bytes, const Settings& settings);

}  // namespace ecmv::codecs::huffman_exponents::segments
