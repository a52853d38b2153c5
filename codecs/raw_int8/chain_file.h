// The uncompressed files of the MatVANS experiments as chains: the safetensors container (tensors `matrices`,
// `initial_vector`, `scales`, `hashes`) and the headerless .bin. A chain with stored scales is written as a container,
// one without as a .bin. The layout is that of the MatVANS white paper's programs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codecs/codec.h"

namespace ecmv::codecs::raw_int8 {

bool recognises_file(std::span<const std::byte> bytes);

// Throws MalformedStream with a sentence about the error.
ChainFile read_file(std::span<const std::byte> bytes);

// The bytes that the original programs write. Throws std::invalid_argument if the format cannot hold the chain
// (container: square layers of one size and a hash for each; .bin: a hash for the last layer).
std::vector<std::byte> write_file(const ChainFile& chain);

}  // namespace ecmv::codecs::raw_int8
