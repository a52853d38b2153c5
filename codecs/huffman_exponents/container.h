// The container: encoder and reference decoder (see format.h and README.md), and its files (container_file.cpp):
// safetensors with one group of tensors a module, PREFIX.luts, .encoded_exponent, .sign_mantissa, .output_positions,
// .gaps and .split_positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codecs/codec.h"

namespace ecmv::codecs::huffman_exponents {

std::string refuses(datasets::MatrixView matrix, const Settings&);
CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings);
void decode(const CompressedView& compressed, std::span<std::byte> out);
int64_t max_stored_bytes(datasets::Shape shape_in_bytes, const Settings&);

bool recognises_file(std::span<const std::byte> bytes);
ChainFile read_file(std::span<const std::byte> bytes);
std::vector<std::byte> write_file(const ChainFile& file);

}  // namespace ecmv::codecs::huffman_exponents
