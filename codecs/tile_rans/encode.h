// The encoders of tile_rans: sections 1 to 4 from the symbols of a matrix.
#pragma once

#include <span>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/tile_rans/format.h"

namespace ecmv::codecs::tile_rans {

// The sections that the layout's coder writes, for a matrix with elements. Throws std::length_error if an offset
// exceeds 32 bits.
void encode_symbols(const Layout& layout, std::span<const uint8_t> symbols, std::vector<Section>& sections);

}  // namespace ecmv::codecs::tile_rans
