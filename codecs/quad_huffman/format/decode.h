// The reference decoder: plain loops, every access checked.
#pragma once

#include <cstddef>
#include <span>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::quad_huffman {

// Throws MalformedStream where the sections are no stream of this codec for a matrix of that shape and type.
void decode(const CompressedView& view, std::span<std::byte> out);

}  // namespace ecmv::codecs::quad_huffman
