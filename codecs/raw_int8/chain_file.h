// The uncompressed files of the MatVANS experiments as chains: the safetensors container (tensors `matrices`,
// `initial_vector`, `scales`, `hashes`) and the headerless .bin. Which of the two is written, the chain decides: with
// stored scales it becomes a container, without them a .bin. Layout facts from the MatVANS white paper's programs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codecs/codec.h"

namespace ecmv::codecs::raw_int8 {

bool recognises_file(std::span<const std::byte> bytes);

// Throws MalformedStream with what is wrong.
ChainFile read_file(std::span<const std::byte> bytes);

// The bytes the original programs write. Throws std::invalid_argument if the format cannot hold the chain (container:
// square layers of one size and a hash for each of them; .bin: a hash for the last layer).
std::vector<std::byte> write_file(const ChainFile& chain);

}  // namespace ecmv::codecs::raw_int8
