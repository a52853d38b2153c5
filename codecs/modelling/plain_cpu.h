// The decode kernel of the uncompressed codecs on CPUs: a copy.
#pragma once

#include "backends/cpu/products/copy_rows.h"
#include "codecs/modelling/plain_elements.h"

namespace ecmv::codecs::modelling {

inline backends::BoundKernel bind_plain_copy(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  return backends::cpu::CopyRows{plain_elements<std::byte>(matrix), plain_row_bytes(matrix)};
}

inline constexpr backends::Kernel kPlainCopy = {.op = backends::Op::decode, .variant = "copy", .bind = bind_plain_copy};

}  // namespace ecmv::codecs::modelling
