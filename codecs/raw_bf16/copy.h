// The decode kernel of raw_bf16 on CPUs.
#pragma once

#include <cstring>

#include "backends/kernel.h"
#include "codecs/raw_bf16/format.h"

namespace ecmv::codecs::raw_bf16 {

struct Copy {
  const uint16_t* elements;
  int64_t cols;
  void operator()(void*, const backends::DecodeArgs& args) const {
    if (const int64_t count = args.rows.count() * cols; count > 0)
      std::memcpy(args.out, elements + args.rows.begin * cols, 2 * static_cast<size_t>(count));
  }
};

inline backends::BoundKernel bind_copy(const backends::Policy&, std::span<const backends::Layer> layers,
                                       backends::Place&) {
  return Copy{elements_of(*layers[0].matrix), layers[0].matrix->shape.cols};
}

}  // namespace ecmv::codecs::raw_bf16
