// The encoder of quad_huffman: a matrix and its model to sections (FORMAT.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/encode/model.h"

namespace ecmv::codecs::quad_huffman {

// Appends the sections of the stored matrix (arrange.h). Returns false and appends nothing if the codes of a lane's
// segment take more than kMostSegmentBits, as rotated symbols may. Throws std::length_error if codes or patches are
// more than their 32-bit index can count.
bool encode_sections(datasets::MatrixView matrix, const Model& model, int tile_cols, Layout layout,
                     CompressedMatrix& compressed);

// Appends the packets of a tile's patches of strips, in the order of their places, and returns how many. Each number is
// twice the place, plus one where the patch takes.
int64_t append_packets(std::span<const uint32_t> patches, std::vector<std::byte>& to);

}  // namespace ecmv::codecs::quad_huffman
