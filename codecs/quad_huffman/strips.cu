// Kernels of products of strips, beside gpu.cu so that both compile at once.
#include "codecs/quad_huffman/gpu/strips.cu"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

template <int kForm>
StripsKernel strips_kernel(const Code& code, int copies) {
  if constexpr (is_folded(kForm)) {
    return code.table_bits <= 10 ? multiply_strips<kForm, 3, 0> : multiply_strips<kForm, 2, 0>;
  } else {
    // Ordered symbols want large tables.
    if (!code.rotated) return multiply_strips<kForm, 2, 0>;
    return copies == 8 ? multiply_strips<kForm, 2, 8> : multiply_strips<kForm, 2, 2>;
  }
}

StripsKernel strips_kernel(const Code& code, int copies) {
  switch (code.form) {
    case 0: return strips_kernel<0>(code, copies);
    case 1: return strips_kernel<1>(code, copies);
    case 2: return strips_kernel<2>(code, copies);
    case kFolded + 2: return strips_kernel<kFolded + 2>(code, copies);
    case kFolded + 3: return strips_kernel<kFolded + 3>(code, copies);
    case kFolded + 4: return strips_kernel<kFolded + 4>(code, copies);
    case kFolded + 5: return strips_kernel<kFolded + 5>(code, copies);
  }
  return nullptr;
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
