// A tile of int8 elements times the vector of int8 in shared memory.
#pragma once

#include "codecs/quad_huffman/gpu/prologue.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Multiplies the tile that `tile` has begun with x, at `inputs` in shared memory, and adds to the sums of its rows.
template <typename TileOf>
ECMV_GPU_DEVICE void multiply_tile(TileOf& tile, const Table& table, gpu::Pointer<const std::byte> inputs,
                                   gpu::Pointer<int32_t> sums) {
  const gpu::Pointer<const int8_t> patched = gpu::cast<const int8_t>(inputs + tile.first_col());
  tile.for_each_patch([&](int row, int col, int change) { gpu::atomic_add(sums + row, change * patched[col]); });
  const gpu::Pointer<const gpu::uint4> own_inputs = gpu::cast<const gpu::uint4>(inputs + tile.first_col());
  int32_t products[2] = {};
  gpu::uint4 input{};
  tile.template decode<true>(table, [&](int segment, int quad, uint32_t bytes) {
    if (quad % 4 == 0) input = own_inputs[segment * (TileOf::kSegmentCols / 16) + quad / 4];
    const uint32_t four = quad % 4 == 0 ? input.x : quad % 4 == 1 ? input.y : quad % 4 == 2 ? input.z : input.w;
    int32_t& sum = products[TileOf::Bytes::sum_of(quad)];
    sum = TileOf::Bytes::add_products(bytes, four, sum);
  });
  gpu::atomic_add(sums + LaneGroup::lane(), TileOf::Bytes::product(products));
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
