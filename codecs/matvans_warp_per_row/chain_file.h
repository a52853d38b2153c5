// The .bin file of matvansWarpPerRow: a header (layers, hash of the final vector, initial vector), then each matrix
// with its shape, cursors, model and payload. It has no magic; sizes that lead exactly to its end are its mark.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codecs/codec.h"

namespace ecmv::codecs::matvans_warp_per_row {

bool recognises_file(std::span<const std::byte> bytes);

// Throws MalformedStream with a sentence about the error. Every layer has then been decoded once, because its source
// hash covers its elements. Padding words keep the file's values.
ChainFile read_file(std::span<const std::byte> bytes);

// Throws std::invalid_argument if the file cannot hold the chain.
std::vector<std::byte> write_file(const ChainFile& chain);

}  // namespace ecmv::codecs::matvans_warp_per_row
