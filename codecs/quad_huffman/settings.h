// What the settings of a matrix ask for.
#pragma once

#include <string>
#include <string_view>

#include "codecs/codec.h"
#include "datasets/matrix.h"

namespace ecmv::codecs::quad_huffman {

int number_of(const Settings& settings, std::string_view name);
bool wants_fragments(const Settings& settings);
bool wants_strips(const Settings& settings);
bool wants_rotated(const Settings& settings);

// The shape of what is stored for a matrix of `shape`.
datasets::Shape stored_shape_for(datasets::Shape shape, const Settings& settings);
// The columns of a tile of what is stored, which is of `shape`.
int tile_cols_for(datasets::Shape shape, const Settings& settings);

// Why a matrix is not stored so; empty if it is.
std::string refuses(datasets::MatrixView matrix, const Settings& settings);

}  // namespace ecmv::codecs::quad_huffman
