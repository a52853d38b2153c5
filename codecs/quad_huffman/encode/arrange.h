// The matrix in the layout in which it is stored, where that is not rows (format/layout.h).
#pragma once

#include "codecs/quad_huffman/format/layout.h"
#include "datasets/large_bytes.h"
#include "datasets/matrix.h"

namespace ecmv::codecs::quad_huffman {

// Row-major, of stored_shape(); empty with Layout::rows. Units and strips that are not whole repeat the matrix's last
// row and column, which cost no more than any other. Products of fragments meet these with zeros, so exponents of 255
// become 1.0.
datasets::LargeBytes arrange(datasets::MatrixView matrix, Layout layout);

}  // namespace ecmv::codecs::quad_huffman
