// Products of small matrices of bytes by 32 lanes together. They use the matrix units of NVIDIA devices since sm_80;
// elsewhere and in the emulator shuffles and dot products give the same sums. Sums are exact integers, so every device
// has the same result.
#pragma once

#include <cstdint>

#include "backends/gpu/lanes.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// c += A B for A [16, 32] of unsigned and B [32, 8] of signed bytes, dealt to the lanes 4 g + t of a group of 32. A
// word has four neighbouring bytes of a row: a.x holds A[g, 4t..], a.y A[g + 8, 4t..], a.z A[g, 16 + 4t..], a.w A[g +
// 8, 16 + 4t..]; b.x holds B[4t.., g], b.y B[16 + 4t.., g]; c[0] is C[g, 2t], c[1] C[g, 2t + 1], c[2] C[g + 8, 2t],
// c[3] C[g + 8, 2t + 1].
ECMV_GPU_DEVICE void multiply_panels(uint4 a, uint2 b, int32_t (&c)[4]) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
#else
  using LaneGroup = Lanes<32>;
  const int g = LaneGroup::lane() / 4, t = LaneGroup::lane() % 4;
  const uint64_t upper = uint64_t{a.z} << 32 | a.x, lower = uint64_t{a.w} << 32 | a.y,
                 column = uint64_t{b.y} << 32 | b.x;
  const auto dot = [](uint64_t bytes, uint64_t with, int32_t sum) {
    sum = dot4_unsigned_signed(static_cast<uint32_t>(bytes), static_cast<int32_t>(with), sum);
    return dot4_unsigned_signed(static_cast<uint32_t>(bytes >> 32), static_cast<int32_t>(with >> 32), sum);
  };
  for (int part = 0; part < 4; ++part) {
    const uint64_t row = LaneGroup::shuffle(upper, 4 * g + part), row_below = LaneGroup::shuffle(lower, 4 * g + part);
    const uint64_t left = LaneGroup::shuffle(column, 8 * t + part),
                   right = LaneGroup::shuffle(column, 8 * t + 4 + part);
    c[0] = dot(row, left, c[0]);
    c[1] = dot(row, right, c[1]);
    c[2] = dot(row_below, left, c[2]);
    c[3] = dot(row_below, right, c[3]);
  }
#endif
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
