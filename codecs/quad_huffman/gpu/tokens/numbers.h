// Tokens of bf16 as kernels read them: eight numbers at a time, scaled by powers of two where elements are multiplied
// as very small numbers, with the largest number and the sum of each token's columns.
#pragma once

#include "backends/gpu/products/row_units.h"
#include "backends/gpu/products/token_units.h"
#include "codecs/quad_huffman/gpu/prologue.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// x' = x * 2^shift has its largest number at about 2^100.
ECMV_GPU_DEVICE int token_shift(uint32_t largest) { return largest == 0 ? 0 : 227 - static_cast<int>(largest >> 7); }
// Two numbers of bf16 in a word are multiplied by these powers of two, one after the other.
struct TokenFactors {
  uint32_t first, second;
};
ECMV_GPU_DEVICE TokenFactors factors_of(int shift) {
  const int half = shift / 2;
  return {static_cast<uint32_t>(127 + half) << 7 | static_cast<uint32_t>(127 + half) << 23,
          static_cast<uint32_t>(127 + shift - half) << 7 | static_cast<uint32_t>(127 + shift - half) << 23};
}
ECMV_GPU_DEVICE gpu::uint4 scaled(gpu::uint4 numbers, TokenFactors factors) {
  const auto both = [&](uint32_t word) {
    return gpu::multiply_pairs(gpu::multiply_pairs(word, factors.first), factors.second);
  };
  return {both(numbers.x), both(numbers.y), both(numbers.z), both(numbers.w)};
}

ECMV_GPU_DEVICE gpu::uint4 eight_numbers(const gpu::Bf16Tokens& x, int token, const TileCols& cols, int col) {
  if (token >= x.batch || cols.first + col >= cols.end) return {};
  return *gpu::cast<const gpu::uint4>(x.x + (token * x.x_stride + cols.first + col));
}

// The largest number and the sum of some numbers of a token.
struct TokenFacts {
  uint32_t most = 0;  // bits of the largest one, without sign
  float total = 0;

  ECMV_GPU_DEVICE void add(gpu::uint4 eight) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < 8; ++i) {
      const uint32_t half = gpu::word_of(eight, i / 2) >> (i % 2 * 16) & 0xFFFF;
      most = (half & 0x7FFF) > most ? half & 0x7FFF : most;
      total += gpu::float_of(half << 16);
    }
  }
  // Joins the facts of all lanes.
  ECMV_GPU_DEVICE void join() {
    most = static_cast<uint32_t>(LaneGroup::reduce_max(static_cast<int32_t>(most)));
    ECMV_GPU_UNROLL
    for (int distance = kLanes / 2; distance > 0; distance /= 2) total += LaneGroup::shuffle_xor(total, distance);
  }
};
// Call once all threads have met: joins the facts of `parts` parts of each token's columns, at 32 * token + part of
// `largest` and `totals`, and leaves them at 32 * token.
ECMV_GPU_DEVICE void join_token_facts(int batch, int lane_groups, int parts, gpu::Pointer<uint32_t> largest,
                                      gpu::Pointer<float> totals) {
  const int lane = LaneGroup::lane();
  for (int token = LaneGroup::group(); token < batch; token += lane_groups) {
    TokenFacts facts;
    if (lane < parts) facts = {largest[token * kLanes + lane], totals[token * kLanes + lane]};
    facts.join();
    LaneGroup::sync();
    if (lane == 0) largest[token * kLanes] = facts.most, totals[token * kLanes] = facts.total;
  }
}

// Finds the largest number and the sum of each token's columns, at 32 * token of `largest` and `totals` once all
// threads have met. Several lane groups look at a token, and at all tokens at once. (H200, 16384 x 16384, 16 tokens: a
// product of fragments of int8 took 78 us so, and 83 with one token after the other.)
ECMV_GPU_DEVICE void look_at_tokens(const gpu::Bf16Tokens& x, const TileCols& cols, int lane_groups,
                                    gpu::Pointer<uint32_t> largest, gpu::Pointer<float> totals) {
  constexpr int kLoads = 4;  // under way
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::group(),
            tokens = x.batch < lane_groups ? x.batch : lane_groups, parts = lane_groups / tokens,
            part = lane_group / tokens;
  if (part < parts) {
    for (int token = lane_group % tokens; token < x.batch; token += tokens) {
      TokenFacts facts;
      const int step = parts * kLanes * 8;
      ECMV_GPU_NO_UNROLL
      for (int col = (part * kLanes + lane) * 8; col < cols.stored; col += kLoads * step) {
        gpu::uint4 words[kLoads];
        ECMV_GPU_UNROLL
        for (int k = 0; k < kLoads; ++k)
          words[k] = col + k * step < cols.stored ? eight_numbers(x, token, cols, col + k * step) : gpu::uint4{};
        ECMV_GPU_UNROLL
        for (int k = 0; k < kLoads; ++k) facts.add(words[k]);
      }
      facts.join();
      if (lane == 0) largest[token * kLanes + part] = facts.most, totals[token * kLanes + part] = facts.total;
    }
  }
  gpu::sync_block();
  join_token_facts(x.batch, lane_groups, parts, largest, totals);
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
