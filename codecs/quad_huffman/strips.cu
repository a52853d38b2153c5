// Kernels of products of strips, beside gpu.cu so that both compile at once.
#include "codecs/quad_huffman/strips_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// At most 16 lane groups on a multiprocessor have twice the registers.
template <int kForm, int kSymbolsOfWindow, int kRotates>
StripsKernel of_lane_groups(int lane_groups) {
  return lane_groups <= 16 ? multiply_strips<kForm, kSymbolsOfWindow, kRotates, 16 * kLanes>
                           : multiply_strips<kForm, kSymbolsOfWindow, kRotates, 32 * kLanes>;
}
template <int kForm>
StripsKernel strips_kernel(const Shape& shape, int copies, int lane_groups) {
  if constexpr (!is_folded(kForm))
    if (shape.rotated)
      return copies == 8 ? of_lane_groups<kForm, 2, 8>(lane_groups) : of_lane_groups<kForm, 2, 2>(lane_groups);
  return shape.table_bits <= 10 ? of_lane_groups<kForm, 3, 0>(lane_groups) : of_lane_groups<kForm, 2, 0>(lane_groups);
}

StripsKernel strips_kernel(const Shape& shape, int copies, int lane_groups) {
  switch (shape.form) {
    case 0: return strips_kernel<0>(shape, copies, lane_groups);
    case 1: return strips_kernel<1>(shape, copies, lane_groups);
    case 2: return strips_kernel<2>(shape, copies, lane_groups);
    case kFolded + 2: return strips_kernel<kFolded + 2>(shape, copies, lane_groups);
    case kFolded + 3: return strips_kernel<kFolded + 3>(shape, copies, lane_groups);
    case kFolded + 4: return strips_kernel<kFolded + 4>(shape, copies, lane_groups);
    case kFolded + 5: return strips_kernel<kFolded + 5>(shape, copies, lane_groups);
  }
  return nullptr;
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
