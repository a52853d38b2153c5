// Copies tokens of bf16 to shared memory, a slice of columns at a time. Lane groups that multiply alone read them
// unchanged, each token a row of its slice. Four that multiply together read blocks of 64 columns whose pairs change
// places (warpgroup_units.h). A launch before the product arranges all tokens so, once and not once for each
// multiprocessor, and slices are then copied as they lie. For elements whose pairs keep their places, as they are
// stored or dealt so (dealt_lines.h), tokens are copied without that launch (copy_blocks_of_tokens). (H200, 16384 x
// 16384, two runs: copying single pairs instead made products of 64 tokens take 4 to 23 us longer, and products of 16
// tokens up to 6.)
#pragma once

#include <algorithm>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/divisor.h"
#include "backends/gpu/products/warpgroup_units.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

inline constexpr int kTokenLanes = 32;

// A thread's share of copying a slice: runs of kEach columns, every few tokens.
template <int kEach>
class TokenRuns {
 public:
  // `runs`: of a slice, at least 1.
  explicit ECMV_GPU_DEVICE TokenRuns(const Divisor& runs) : runs_(runs.number()) {
    const int threads = static_cast<int>(block_size()), thread = static_cast<int>(thread_index());
    tokens_at_once_ = runs_ < threads ? runs.quotient(threads) : 1;
    token_ = runs.quotient(thread);
    run_ = thread - token_ * runs_;
    if (tokens_at_once_ == 1) token_ = 0, run_ = thread;
    if (token_ >= tokens_at_once_) run_ = runs_;  // this thread copies nothing
  }
  // Starts the copies of the columns from `first_col` on, with zeros from `end_col` on, to `to`, `token_bytes` from one
  // token to the next. place(column of the slice) gives the place for that column's number.
  template <typename Place>
  ECMV_GPU_DEVICE void copy(const Bf16Tokens& tokens, int64_t first_col, int64_t end_col, int token_bytes,
                            Pointer<std::byte> to, Place place) const {
    for (int run = run_; run < runs_; run += static_cast<int>(block_size())) {
      const bool there = first_col + run * kEach < end_col;
      Pointer<const uint16_t> from = tokens.x + (token_ * tokens.x_stride + first_col + run * kEach);
      Pointer<std::byte> own = to + (token_ * token_bytes + 2 * place(run * kEach));
      ECMV_GPU_NO_UNROLL
      for (int token = token_; token < tokens.batch; token += tokens_at_once_) {
        copy_async_or_zero<2 * kEach>(own, cast<const std::byte>(from), there);
        from = from + tokens_at_once_ * tokens.x_stride;
        own = own + tokens_at_once_ * token_bytes;
      }
    }
  }

 private:
  int runs_, tokens_at_once_, token_, run_;
};

inline int64_t token_blocks(int64_t cols) { return (cols + kBlockCols - 1) / kBlockCols; }
// Device memory for the blocks of `cols` columns of kMaxBatch tokens.
inline int64_t token_blocks_bytes(int64_t cols) { return token_blocks(cols) * kMaxBatch * kBlockTokenBytes; }

inline constexpr int kArrangeThreads = 256;

// Writes `to` [blocks, block_tokens, 64] in the order of warpgroup_units.h, with zeros for columns and tokens that do
// not exist. A lane group copies a token's columns of a block. Elements::unit_pair() is the place of the numbers of two
// columns.
template <typename Elements>
ECMV_GPU_KERNEL void arrange_tokens(Bf16Tokens tokens, int64_t cols, int64_t blocks, int block_tokens,
                                    Pointer<std::byte> to) {
  using LaneGroup = Lanes<kTokenLanes>;
  const int pair = LaneGroup::lane(), to_pair = Elements::unit_pair(pair),
            groups = static_cast<int>(block_size()) / kTokenLanes;
  let_next_begin();
  wait_for_previous();
  for (int64_t i = block_index() * groups + LaneGroup::group(); i < blocks * block_tokens; i += grid_size() * groups) {
    const int64_t block = i / block_tokens, col = block * kBlockCols + 2 * pair;
    const int token = static_cast<int>(i % block_tokens);
    uint32_t numbers = 0;
    if (token < tokens.batch && col < cols) numbers = *cast<const uint32_t>(tokens.x + (token * tokens.x_stride + col));
    *cast<uint32_t>(to + (block * block_tokens * kBlockTokenBytes + pair_place(token, to_pair))) = numbers;
  }
}

// The launch before a product whose kernel reads `blocks` blocks of `block_tokens` tokens. It writes them to `place`, a
// multiple of 16, and sets tokens.blocks.
template <typename Elements>
void enqueue_token_blocks(void* stream, Bf16Tokens& tokens, int64_t cols, int64_t blocks, int block_tokens,
                          std::byte* place, int compute_units, bool early) {
  const int64_t groups = kArrangeThreads / kTokenLanes,
                grid = std::min<int64_t>(int64_t{compute_units} * 4, (blocks * block_tokens + groups - 1) / groups);
  launch(arrange_tokens<Elements>, {grid, kArrangeThreads, 0, early}, stream, tokens, cols, blocks, block_tokens,
         Pointer<std::byte>(place));
  tokens.blocks = place;
}

// Starts the copies of the `cols` columns from `first_col` on, both multiples of 64, by all threads, with zeros for
// blocks that begin at `end_col` or after it.
ECMV_GPU_DEVICE void copy_token_blocks(const Bf16Tokens& tokens, int64_t first_col, int64_t end_col, int cols,
                                       int block_tokens, Pointer<std::byte> to) {
  constexpr int kBytes = 16;
  const int block_bytes = block_tokens * kBlockTokenBytes, bytes = cols / kBlockCols * block_bytes;
  const int64_t left = (end_col - first_col + kBlockCols - 1) / kBlockCols * block_bytes;
  const Pointer<const std::byte> from = tokens.blocks + first_col / kBlockCols * block_bytes;
  for (int at = static_cast<int>(thread_index()) * kBytes; at < bytes; at += static_cast<int>(block_size()) * kBytes)
    copy_async_or_zero<kBytes>(to + at, from + at, at < left);
}

// Copies blocks of kBlockTokens from tokens as they lie in memory. Pairs keep their places, and no launch arranges
// tokens before the product. Tokens and columns that do not exist, eight columns at a time, become zeros. A thread
// copies the same eight columns of all blocks.
template <int kBlockTokens>
ECMV_GPU_DEVICE void copy_blocks_of_tokens(const Bf16Tokens& tokens, int64_t first_col, int64_t end_col, int cols,
                                           Pointer<std::byte> to) {
  constexpr int kPartCols = 8, kParts = kBlockCols / kPartCols, kBlockBytes = kBlockTokens * kBlockTokenBytes;
  const int thread = static_cast<int>(thread_index()), part = thread % kParts, row = thread / kParts,
            rows = static_cast<int>(block_size()) / kParts,
            at_once = rows >= kBlockTokens ? rows / kBlockTokens : 1;  // blocks
  if (row / kBlockTokens >= at_once) return;
  for (int token = row % kBlockTokens; token < kBlockTokens; token += rows) {
    const Pointer<std::byte> own = to + pair_place(token, part * (kPartCols / 2));
    const bool exists = token < tokens.batch;
    const Pointer<const uint16_t> from = tokens.x + (exists ? token * tokens.x_stride + first_col : 0);
    for (int block = row / kBlockTokens; block * kBlockCols < cols; block += at_once) {
      const int col = block * kBlockCols + part * kPartCols;
      copy_async_or_zero<2 * kPartCols>(own + block * kBlockBytes, cast<const std::byte>(from + col),
                                        exists && first_col + col < end_col);
    }
  }
}

// As copy_blocks_of_tokens for kCols columns, in kernels that take many slices. Nearly always all columns exist and a
// thread has one token of each block; then its copies differ by constants: 42 instructions for four of them instead of
// 130. (quad_huffman, symbols of eight, 64 tokens, 8192 x 8192, two runs each in turn on an H200: 1.60 T elements/s
// instead of 1.56.)
template <int kBlockTokens, int kCols>
ECMV_GPU_DEVICE void copy_slice_of_tokens(const Bf16Tokens& tokens, int64_t first_col, int64_t end_col,
                                          Pointer<std::byte> to) {
  constexpr int kPartCols = 8, kParts = kBlockCols / kPartCols, kThreads = kParts * kBlockTokens;
  const int threads = static_cast<int>(block_size());
  if (threads < kThreads || threads >= 2 * kThreads || first_col + kCols > end_col) {
    copy_blocks_of_tokens<kBlockTokens>(tokens, first_col, end_col, kCols, to);
    return;
  }
  const int thread = static_cast<int>(thread_index()), part = thread % kParts, token = thread / kParts;
  if (token >= kBlockTokens) return;
  const bool exists = token < tokens.batch;
  const Pointer<const uint16_t> from =
      tokens.x + (first_col + part * kPartCols + (exists ? token * tokens.x_stride : 0));
  const Pointer<std::byte> own = to + pair_place(token, part * (kPartCols / 2));
  ECMV_GPU_UNROLL
  for (int block = 0; block < kCols / kBlockCols; ++block)
    copy_async_or_zero<2 * kPartCols>(own + block * (kBlockTokens * kBlockTokenBytes),
                                      cast<const std::byte>(from + block * kBlockCols), exists);
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
