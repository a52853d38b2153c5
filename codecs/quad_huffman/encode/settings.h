// The settings of a matrix, and the bounds that follow from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codecs/codec.h"
#include "codecs/quad_huffman/encode/model.h"
#include "datasets/matrix.h"

namespace ecmv::codecs::quad_huffman {

std::vector<SettingInfo> setting_infos();

Wanted wanted_by(const Settings& settings);
// The columns of a tile of the matrix as it is stored.
int tile_cols_for(const datasets::MatrixView& stored, const Settings& settings, const Model& model);

// Says why a matrix is not stored so; empty if it is.
std::string refuses(datasets::MatrixView matrix, const Settings& settings);

// A bound of the stored bytes of every matrix of that many rows and bytes a row.
int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings);

}  // namespace ecmv::codecs::quad_huffman
