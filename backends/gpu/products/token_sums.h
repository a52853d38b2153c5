// The end of a product with tokens (token_matmul.h): a block's sums in shared memory are added up and stored.
#pragma once

#include "backends/gpu/cluster.h"
#include "backends/gpu/products/token_entries.h"
#include "backends/gpu/products/token_plan.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// The sums of one token and four rows.
struct FourSums {
  float sums[4] = {};

  ECMV_GPU_DEVICE void add(const uint4& more) {
    ECMV_GPU_UNROLL
    for (int k = 0; k < 4; ++k) sums[k] += float_of(word_of(more, k));
  }
  ECMV_GPU_DEVICE uint4 words() const {
    return {bits_of(sums[0]), bits_of(sums[1]), bits_of(sums[2]), bits_of(sums[3])};
  }
  // In rows `row` to row + 3 of the results, those that exist.
  ECMV_GPU_DEVICE void store(const Bf16Tokens& tokens, int64_t token, int64_t row) const {
    const int64_t to = token * tokens.rows + row;
    if (tokens.in_fours) {
      if (row >= tokens.rows) return;
      if (tokens.rounds)
        *cast<uint2>(tokens.y_bf16 + to) = uint2{bf16_of(sums[0]) | uint32_t{bf16_of(sums[1])} << 16,
                                                 bf16_of(sums[2]) | uint32_t{bf16_of(sums[3])} << 16};
      else
        *cast<uint4>(tokens.y + to) = words();
      return;
    }
    ECMV_GPU_UNROLL
    for (int k = 0; k < 4; ++k) {
      if (row + k >= tokens.rows) break;
      if (tokens.rounds)
        tokens.y_bf16[to + k] = bf16_of(sums[k]);
      else
        tokens.y[to + k] = sums[k];
    }
  }
};

// A block's sums in shared memory: [parts, batch, rows of the block].
struct BlockSums {
  int rows, token_sums, part_sums;
  Pointer<float> sums;

  ECMV_GPU_DEVICE BlockSums(const TokenPlan& plan, int tile_rows, int batch)
      : rows(plan.tiles.number() * tile_rows),
        token_sums(rows + kSumsPadding),
        part_sums(batch * token_sums),
        sums(cast<float>(shared_memory())) {}

  // A lane's sums of a part, from its first row and token on. Lanes write different banks at once.
  template <int kRowTiles, int kTokenTiles>
  ECMV_GPU_DEVICE void put(const float (&own)[kRowTiles][kTokenTiles][4], int part, int row, int first_token,
                           int batch) const {
    ECMV_GPU_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      ECMV_GPU_UNROLL
      for (int k = 0; k < kTokenTiles; ++k) {
        ECMV_GPU_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int token = 8 * k + first_token + i % 2;
          if (token < batch)
            sums[part * part_sums + token * token_sums + row + r * kTileRows + i / 2 * 8] = own[r][k][i];
        }
      }
    }
  }

  // A lane group's own, from its tile's first row on.
  ECMV_GPU_DEVICE GroupSums of_group(int part, int row) const { return {sums + (part * part_sums + row), token_sums}; }

  // Adds up the parts and the shares of a cluster, and stores the results: a thread takes four rows, and the threads
  // take as many tokens at once as they have rows for. (One token after the other, with a thread a row, took half of
  // the time: raw_bf16, 4096 x 1024, 64 tokens on an H200, 15 us instead of 8.3.)
  template <int kThreads>
  ECMV_GPU_DEVICE void store(const TokenPlan& plan, int64_t row_block, int share, const Bf16Tokens& tokens) const {
    const int at_once = plan.fours.quotient(kThreads), own = plan.fours.quotient(thread_index()),
              row = (thread_index() - own * plan.fours.number()) * 4, first = own < at_once ? own : tokens.batch,
              shares = plan.shares.number();
    const int64_t to_row = row_block * rows + row;
    const auto place = [&](int token, int part) {
      return cast<uint4>(sums + (part * part_sums + token * token_sums + row));
    };
    const auto of_parts = [&](int token) {
      constexpr int kAtOnce = 4;  // parts that are loaded before they are added
      FourSums sum;
      for (int p = 0; p < plan.parts; p += kAtOnce) {
        uint4 some[kAtOnce];
        ECMV_GPU_UNROLL
        for (int k = 0; k < kAtOnce; ++k) some[k] = p + k < plan.parts ? *place(token, p + k) : uint4{};
        ECMV_GPU_UNROLL
        for (int k = 0; k < kAtOnce; ++k) sum.add(some[k]);
      }
      return sum;
    };
    if (!plan.in_cluster) {
      for (int token = first; token < tokens.batch; token += at_once)
        of_parts(token).store(tokens, share * tokens.batch + token, to_row);
      return;
    }
    for (int token = first; token < tokens.batch; token += at_once) *place(token, 0) = of_parts(token).words();
    sync_cluster();
    // Each share stores every few tokens.
    for (int token = first * shares + share; token < tokens.batch; token += at_once * shares) {
      FourSums sum;
      for (int s = 0; s < shares; ++s) sum.add(load_of_block(place(token, 0), s));
      sum.store(tokens, token, to_row);
    }
    sync_cluster_after_reads();
  }
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
