// Portable kernels of `hierarchical`. A block of 4096 coded bytes begins at its output position and its first gap. Four
// blocks are decoded at once, one code each in turn, into a buffer that then holds consecutive elements. A call that
// begins inside a block drops the elements before its first row. Assumes a verified stream.
#pragma once

#include <span>
#include <string>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::huffman_lut::hierarchical {

std::string refuses_layout(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&);
backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers, int, backends::Place&);
backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers, int, backends::Place&);

}  // namespace ecmv::codecs::huffman_lut::hierarchical
