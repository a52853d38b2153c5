// Chain files of the quad coder: the safetensors container that the original encoder writes for ans-warp-rows and
// ans-warp-stripes. Both layouts have the same tensors; the number of offsets of a matrix tells them apart.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codecs/modelling/quad_ans/quad_ans.h"

namespace ecmv::codecs::modelling {

bool recognises_quad_file(std::span<const std::byte> bytes, QuadLayoutOf layout_of);

// All layers are square and as wide as the initial vector. Throws MalformedStream. Every layer has then been decoded
// once, because its source hash covers its elements.
ChainFile read_quad_file(std::span<const std::byte> bytes, QuadLayoutOf layout_of, uint32_t format_version);

// The bytes the original encoder writes. Throws std::invalid_argument if the container cannot hold the chain.
std::vector<std::byte> write_quad_file(const ChainFile& chain, QuadLayoutOf layout_of);

}  // namespace ecmv::codecs::modelling
