// The decode kernel of raw_bf16 on CPUs.
#pragma once

#include "backends/cpu/products/copy_rows.h"
#include "codecs/compressed_matrix.h"
#include "codecs/raw_bf16/format.h"

namespace ecmv::codecs::raw_bf16 {

inline backends::BoundKernel bind_copy(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  return backends::cpu::CopyRows{matrix.sections[kElements].bytes.data(), 2 * matrix.shape.cols};
}

}  // namespace ecmv::codecs::raw_bf16
