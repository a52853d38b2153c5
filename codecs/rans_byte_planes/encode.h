// The encoder of rans_byte_planes.
#pragma once

#include "codecs/compressed_matrix.h"
#include "codecs/rans_byte_planes/format.h"

namespace ecmv::codecs::rans_byte_planes {

// Deterministic. Takes an i8 or bf16 matrix of any shape; a matrix that would grow is stored as it is.
CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings);

}  // namespace ecmv::codecs::rans_byte_planes
