// A matrix as the CPU kernels of both layouts of the quad coder are bound to it.
#pragma once

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/modelling/quad_ans/quad_ans.h"

namespace ecmv::codecs::modelling {

// A matrix as kernels read it.
struct QuadMatrix {
  datasets::Shape shape;
  QuadLayout layout;
  std::span<const std::byte> payload, offsets;
  const std::byte* symbol;  // [kQuadSlots], as the two others
  const std::byte* cum;
  const std::byte* prob;
};

inline QuadMatrix quad_matrix(const CompressedView& compressed, QuadLayoutOf layout_of) {
  const auto bytes_of = [&](QuadSection section) { return compressed.sections[section].bytes; };
  return {
      compressed.shape,          layout_of(compressed.shape),  bytes_of(kQuadCompressed),    bytes_of(kQuadWarpOffsets),
      bytes_of(kQuadPpf).data(), bytes_of(kQuadPpfCum).data(), bytes_of(kQuadPpfProb).data()};
}

}  // namespace ecmv::codecs::modelling
