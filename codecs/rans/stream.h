// A matrix of rans as CPU kernels are bound to it.
#pragma once

#include "codecs/compressed_matrix.h"
#include "codecs/modelling/block_stream.h"
#include "codecs/rans/format.h"

namespace ecmv::codecs::rans {

using Stream = BlockStream<Layout>;

// The instantiation for a layout. Args is DecodeArgs or MatvecArgs.
template <class Args>
using Run = BlockRun<Layout, Args>;

inline Stream stream_of(const CompressedView& matrix) {
  return block_stream_of(matrix, layout_of(matrix.shape, *matrix.settings));
}

}  // namespace ecmv::codecs::rans
