// Splits a product with tokens among several thread blocks, the shares: each takes some of the columns, and more rows
// in return. Each multiprocessor reads all tokens of its columns: with 64 tokens and 16384 columns 2 MB, 277 MB
// together on an H200, as much as int8 weights of 16384 rows. Four shares read a quarter of that. The shares' sums lie
// in scratch [shares, batch, rows]; a launch after the product adds them in the order of the shares.
#pragma once

#include <algorithm>

#include "backends/gpu/launch.h"
#include "backends/gpu/products/token_units.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Scratch for the shares of any batch; 0 for one share, which stores results itself.
inline int64_t share_scratch_bytes(int shares, int64_t rows) {
  return shares > 1 ? int64_t{shares} * kMaxBatch * rows * static_cast<int64_t>(sizeof(float)) : 0;
}

// Few enough for the registers that a product's block of 30 lane groups, 64 registers a lane, leaves.
inline constexpr int kAddThreads = 128, kAddBlocks = 2048 / kAddThreads;  // per multiprocessor

// y[i] = sums[i] + sums[count + i] + ... for i < count, four at a time, rounded at `y_bf16` if that is there. The sums
// of four shares are loaded before they are added.
template <typename Four>
ECMV_GPU_KERNEL void add_shares(Pointer<const float> sums, int shares, int64_t count, Pointer<float> y,
                                Pointer<uint16_t> y_bf16, bool rounds) {
  constexpr int kEach = static_cast<int>(sizeof(Four) / sizeof(float)), kAtOnce = 4;
  let_next_begin();
  wait_for_previous();
  for (int64_t i = (block_index() * block_size() + thread_index()) * kEach; i < count;
       i += grid_size() * block_size() * kEach) {
    float sum[kEach] = {};
    for (int first = 0; first < shares; first += kAtOnce) {
      Four some[kAtOnce];
      ECMV_GPU_UNROLL
      for (int s = 0; s < kAtOnce; ++s)
        some[s] = first + s < shares ? *cast<const Four>(sums + ((first + s) * count + i)) : Four{};
      ECMV_GPU_UNROLL
      for (int s = 0; s < kAtOnce; ++s) {
        ECMV_GPU_UNROLL
        for (int k = 0; k < kEach; ++k) {
          if constexpr (kEach == 1)
            sum[k] += some[s];
          else
            sum[k] += float_of(word_of(some[s], k));
        }
      }
    }
    if constexpr (kEach == 1) {
      if (rounds)
        y_bf16[i] = bf16_of(sum[0]);
      else
        y[i] = sum[0];
    } else if (rounds)
      *cast<uint2>(y_bf16 + i) =
          uint2{bf16_of(sum[0]) | uint32_t{bf16_of(sum[1])} << 16, bf16_of(sum[2]) | uint32_t{bf16_of(sum[3])} << 16};
    else
      *cast<Four>(y + i) = Four{bits_of(sum[0]), bits_of(sum[1]), bits_of(sum[2]), bits_of(sum[3])};
  }
}

// The launch after a product of `batch` tokens from `first` on, of `shares`, whose sums lie in the scratch.
inline void enqueue_add_shares(void* stream, const MatmulArgs& args, int first, int batch, int shares,
                               int compute_units, bool early) {
  if (shares <= 1) return;
  const Pointer<const float> sums = reinterpret_cast<const float*>(args.scratch);
  const int64_t count = batch * args.y_stride;
  const bool rounds = args.y_bf16 != nullptr;
  float* const y = rounds ? nullptr : args.y + first * args.y_stride;
  uint16_t* const y_bf16 = rounds ? args.y_bf16 + first * args.y_stride : nullptr;
  const int64_t blocks =
      std::min<int64_t>(int64_t{compute_units} * kAddBlocks, (count + kAddThreads * 4 - 1) / (kAddThreads * 4));
  const LaunchShape shape{blocks, kAddThreads, 0, early};
  const bool in_fours =
      count % 4 == 0 && reinterpret_cast<uintptr_t>(y) % 16 == 0 && reinterpret_cast<uintptr_t>(y_bf16) % 8 == 0;
  launch(in_fours ? add_shares<uint4> : add_shares<float>, shape, stream, sums, shares, count, Pointer<float>(y),
         Pointer<uint16_t>(y_bf16), rounds);
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
