// Kernels of products of strips, beside gpu.cu so that both compile at once.
#include "codecs/quad_huffman/gpu/strips.cu"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

template <int kForm>
StripsKernel strips_kernel(const Shape& shape, int copies) {
  if constexpr (is_folded(kForm)) {
    return shape.table_bits <= 10 ? multiply_strips<kForm, 3, 0> : multiply_strips<kForm, 2, 0>;
  } else {
    // Ordered symbols want large tables.
    if (!shape.rotated) return multiply_strips<kForm, 2, 0>;
    return copies == 8 ? multiply_strips<kForm, 2, 8> : multiply_strips<kForm, 2, 2>;
  }
}

StripsKernel strips_kernel(const Shape& shape, int copies) {
  switch (shape.form) {
    case 0: return strips_kernel<0>(shape, copies);
    case 1: return strips_kernel<1>(shape, copies);
    case 2: return strips_kernel<2>(shape, copies);
    case kFolded + 2: return strips_kernel<kFolded + 2>(shape, copies);
    case kFolded + 3: return strips_kernel<kFolded + 3>(shape, copies);
    case kFolded + 4: return strips_kernel<kFolded + 4>(shape, copies);
    case kFolded + 5: return strips_kernel<kFolded + 5>(shape, copies);
  }
  return nullptr;
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
