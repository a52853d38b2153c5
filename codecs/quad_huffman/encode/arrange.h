// The matrix that is stored in place of another one, in layouts other than rows (layout.h).
#pragma once

#include <cstddef>
#include <vector>

#include "codecs/quad_huffman/format/layout.h"
#include "datasets/matrix.h"

namespace ecmv::codecs::quad_huffman {

// Row-major, of stored_shape(); empty with Layout::rows. Units and strips that are not whole repeat the matrix's last
// row and column, which are coded as well as any. Products of fragments meet them with zeros, so exponents of 255
// become 1.0.
std::vector<std::byte> arrange(datasets::MatrixView matrix, Layout layout);

}  // namespace ecmv::codecs::quad_huffman
