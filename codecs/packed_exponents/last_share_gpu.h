// Tiles that several thread blocks share (PipelineTile), added by whoever comes last. A lane group stores its sums as
// its lanes have them and counts itself. The last one that has a tile's rows adds what all of them stored, in the order
// of the shares, so that results do not depend on who that is. Nobody waits.
#pragma once

#include "codecs/packed_exponents/pipeline_stages_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

struct LastShare {
  gpu::Pointer<uint32_t> arrived{};   // how many lane groups with the same rows have stored; zero before and after
  gpu::Pointer<gpu::uint4> stored{};  // [shares, places, token tiles, lanes]
  int64_t places = 0;                 // for the rows of lane groups

  // A lane group of a share. `place`: of its rows. True for the last one, which has the sums of all shares then.
  template <int kTokenTiles>
  ECMV_GPU_DEVICE bool add(int share, int shares, int64_t place, float (&sums)[kTokenTiles][4]) const {
    constexpr int kLanes = gpu::kTokenLanes;
    const gpu::Pointer<gpu::uint4> first = stored + (place * (kTokenTiles * kLanes) + LaneGroup::lane());
    const int64_t stride = places * (kTokenTiles * kLanes);
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTokenTiles; ++j) store(first + (share * stride + j * kLanes), sums[j]);
    LaneGroup::sync();
    uint32_t before = 0;
    if (LaneGroup::lane() == 0) before = count(arrived + place);
    if (static_cast<int>(LaneGroup::pick(before, 0)) + 1 != shares) return false;
    if (LaneGroup::lane() == 0) arrived[place] = 0;
    LaneGroup::sync();
    if (shares == 2) {  // own sums are here, and it does not matter which of two come first
      add(sums, first + (1 - share) * stride);
      return true;
    }
    ECMV_GPU_UNROLL
    for (float(&of_tokens)[4] : sums) {
      ECMV_GPU_UNROLL
      for (float& sum : of_tokens) sum = 0;
    }
    ECMV_GPU_NO_UNROLL
    for (int s = 0; s < shares; ++s) add(sums, first + s * stride);
    return true;
  }

 private:
  template <int kTokenTiles>
  static ECMV_GPU_DEVICE void add(float (&sums)[kTokenTiles][4], gpu::Pointer<const gpu::uint4> share) {
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTokenTiles; ++j) {
      const gpu::uint4 four = share[j * gpu::kTokenLanes];
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) sums[j][i] += gpu::float_of(gpu::word_of(four, i));
    }
  }
  // Counts a lane group. What it stored is seen by those that count themselves later, each after a barrier of its
  // lanes.
  static ECMV_GPU_DEVICE uint32_t count(gpu::Pointer<uint32_t> arrived) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__)
    uint32_t before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrived) : "memory");
    return before;
#else  // the emulator; no other device runs this (gpu.cu)
    return gpu::atomic_add(arrived, uint32_t{1});
#endif
  }
  // Words instead of numbers would make ptxas wait for every product (C7514).
  static ECMV_GPU_DEVICE void store(gpu::Pointer<gpu::uint4> at, const float (&four)[4]) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__)
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(four[0]), "f"(four[1]), "f"(four[2]),
                 "f"(four[3])
                 : "memory");
#else
    *at = {gpu::bits_of(four[0]), gpu::bits_of(four[1]), gpu::bits_of(four[2]), gpu::bits_of(four[3])};
#endif
  }
};

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
