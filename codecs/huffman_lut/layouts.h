// Encoders and reference decoders of the two layouts of huffman_lut: `hierarchical`, DFloat11's for int8 symbols, and
// `single_level`. See format.h and README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "codecs/codec.h"

namespace ecmv::codecs::huffman_lut {

namespace hierarchical {
std::string refuses(datasets::MatrixView matrix, const Settings& settings);
CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings);
void decode(const CompressedView& compressed, std::span<std::byte> out);
int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings);
}  // namespace hierarchical

namespace single_level {
std::string refuses(datasets::MatrixView matrix, const Settings& settings);
CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings);
void decode(const CompressedView& compressed, std::span<std::byte> out);
int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings);
}  // namespace single_level

}  // namespace ecmv::codecs::huffman_lut
