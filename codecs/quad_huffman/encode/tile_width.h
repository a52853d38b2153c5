// How many columns a tile has where the setting `tile_cols` is open, by models of an H200 (an H100 has as many
// multiprocessors). A stored matrix does not know how many tokens it will meet, so fragments suit 1, 16 and 64 of them.
#pragma once

#include "codecs/quad_huffman/format/layout.h"
#include "datasets/matrix.h"

namespace ecmv::codecs::quad_huffman {

// `stored`: the shape as it is stored.
int tile_cols_for_rows(datasets::Shape stored, datasets::ElementType type);
int tile_cols_for_fragments(datasets::Shape stored, datasets::ElementType type, int symbol_cols, int table_bits);

// The product of the microseconds that an H200 takes for products of fragments of floats with 1, 16 and 64 tokens: the
// shortest of all widths, or that of `tile_cols`. With bits an element, everything counted.
double fragments_cost(datasets::Shape stored, int symbol_cols, int table_bits, double bits, int tile_cols = 0);

}  // namespace ecmv::codecs::quad_huffman
