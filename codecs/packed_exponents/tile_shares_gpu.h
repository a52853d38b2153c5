// Tiles that several thread blocks share (PipelineTile). The block with a tile's end adds the sums of all of them. The
// others have lower numbers. Each leaves its sums in memory that was zero, and goes on: it leaves those first that
// others wait for, and takes what others left last of all. A number that is there is not zero, so nothing counts
// arrivals and no fence waits for stores; who takes a number makes it zero again.
#pragma once

#include "backends/gpu/exchange.h"
#include "codecs/packed_exponents/pipeline_stages_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

struct TileShares {
  gpu::Pointer<gpu::uint4> left{};  // [blocks, lane groups that multiply, token tiles, lanes]

  static int64_t bytes(int64_t blocks, int64_t lane_groups, int64_t token_tiles) {
    return blocks * lane_groups * token_tiles * gpu::kTokenLanes * int64_t{sizeof(gpu::uint4)};
  }
  // A lane group, number `own` of this block's `lane_groups`. A block leaves sums of one tile at most.
  template <int kTokenTiles>
  ECMV_GPU_DEVICE void leave(int own, int lane_groups, const float (&sums)[kTokenTiles][4]) const {
    const gpu::Pointer<gpu::uint4> to = place<kTokenTiles>(gpu::block_index(), own, lane_groups);
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTokenTiles; ++j) store(to + j * gpu::kTokenLanes, sums[j]);
  }
  // Adds those of the `others` blocks before this one, in their order.
  template <int kTokenTiles>
  ECMV_GPU_DEVICE void take(int own, int lane_groups, int others, float (&sums)[kTokenTiles][4]) const {
    constexpr int kAtOnce = kTokenTiles == 16 ? 16 : 8;  // with 256 tokens there are no registers for more
    ECMV_GPU_NO_UNROLL
    for (int i = 0; i < others; ++i) {
      const gpu::Pointer<gpu::uint4> from = place<kTokenTiles>(gpu::block_index() - others + i, own, lane_groups);
      ECMV_GPU_UNROLL
      for (int j = 0; j < kTokenTiles; j += kAtOnce) {
        gpu::uint4 fours[kAtOnce];
        for (bool there = false; !there;) {
          bool all = true;
          ECMV_GPU_UNROLL
          for (int k = 0; k < kAtOnce; ++k) {
            fours[k] = gpu::load_exchanged(gpu::Pointer<const gpu::uint4>(from + (j + k) * gpu::kTokenLanes));
            all = all && fours[k].x != 0 && fours[k].y != 0 && fours[k].z != 0 && fours[k].w != 0;
          }
          there = LaneGroup::all(all);
          if (!there) gpu::pause();
        }
        ECMV_GPU_UNROLL
        for (int k = 0; k < kAtOnce; ++k) {
          from[(j + k) * gpu::kTokenLanes] = gpu::uint4{};
          ECMV_GPU_UNROLL
          for (int n = 0; n < 4; ++n) sums[j + k][n] += gpu::float_of(gpu::word_of(fours[k], n));
        }
      }
    }
  }

 private:
  template <int kTokenTiles>
  ECMV_GPU_DEVICE gpu::Pointer<gpu::uint4> place(int64_t block, int own, int lane_groups) const {
    return left + ((block * lane_groups + own) * (kTokenTiles * gpu::kTokenLanes) + LaneGroup::lane());
  }
  // Words instead of numbers would make ptxas wait for every product (C7514).
  static ECMV_GPU_DEVICE void store(gpu::Pointer<gpu::uint4> at, const float (&sums)[4]) {
    float four[4];
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) four[i] = sums[i] == 0 ? -0.0f : sums[i];
#if !defined(__HIP__) && defined(__CUDA_ARCH__)
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(four[0]), "f"(four[1]),
                 "f"(four[2]), "f"(four[3])
                 : "memory");
#else
    *at = {gpu::bits_of(four[0]), gpu::bits_of(four[1]), gpu::bits_of(four[2]), gpu::bits_of(four[3])};
#endif
  }
};

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
