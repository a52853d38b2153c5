// The encoder of quad_huffman: a matrix and its model to the sections of format.h.
#pragma once

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/model.h"

namespace ecmv::codecs::quad_huffman {

// Appends the sections. False, and nothing is appended, if the codes of a lane's segment take more than kMostSegmentBits, as those of
// rotated symbols may. Throws std::length_error if codes or patches are more than their 32-bit index can count.
bool encode_sections(datasets::MatrixView matrix, const Model& model, int tile_cols, CompressedMatrix& compressed,
                     bool strips);

}  // namespace ecmv::codecs::quad_huffman
