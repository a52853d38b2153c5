// Columns of tokens for records (record_chunks_gpu.h): the tokens again, [blocks, cols, tokens of a block], so that a
// column of a block is one piece of memory.
#pragma once

#include <cstdint>

#include "backends/gpu/launch.h"
#include "backends/gpu/products/token_units.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

// A thread block takes 32 columns of 64 tokens, a thread 16 bytes.
inline constexpr int kTransposeThreads = 256, kTransposeCols = 32, kTransposeTokens = 64;
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kTransposeThreads, 1) void transpose_tokens(gpu::Bf16Tokens tokens, int cols,
                                                                            int block_tokens,
                                                                            gpu::Pointer<uint16_t> to) {
  constexpr int kEach = 8, kStride = kTransposeTokens + 8;  // of a column in shared memory
  const gpu::Pointer<uint16_t> tile = gpu::cast<uint16_t>(gpu::shared_memory());
  gpu::let_next_begin();
  const int col_blocks = (cols + kTransposeCols - 1) / kTransposeCols, block = static_cast<int>(gpu::block_index()),
            part = block / col_blocks, first_col = (block - part * col_blocks) * kTransposeCols,
            first_token = part * kTransposeTokens, thread = gpu::thread_index();
  gpu::wait_for_previous();
  {
    const int token = thread / 4, col = thread % 4 * kEach;
    gpu::uint4 eight{};
    if (first_token + token < tokens.batch && first_col + col < cols)
      eight = *gpu::cast<const gpu::uint4>(tokens.x + ((first_token + token) * tokens.x_stride + first_col + col));
    ECMV_GPU_UNROLL
    for (int k = 0; k < kEach; ++k)
      tile[(col + k) * kStride + token] = static_cast<uint16_t>(gpu::word_of(eight, k / 2) >> (k % 2 * 16));
  }
  gpu::sync_block();
  const int col = thread / 8, token = thread % 8 * kEach, of_block = first_token % block_tokens;
  if (first_col + col < cols) {
    const int64_t column = int64_t{first_token / block_tokens} * cols + first_col + col;
    *gpu::cast<gpu::uint4>(to + (column * block_tokens + of_block + token)) =
        *gpu::cast<const gpu::uint4>(tile + (col * kStride + token));
  }
}
inline int64_t transposed_bytes(int64_t tokens, int64_t cols) { return tokens * cols * 2; }
// Tokens in `blocks` of block_tokens, a multiple of 64; those that do not exist become zeros.
inline void enqueue_transposed_tokens(void* stream, const gpu::Bf16Tokens& tokens, int blocks, int block_tokens,
                                      int cols, std::byte* to, bool early) {
  const int64_t parts = int64_t{blocks} * (block_tokens / kTransposeTokens);
  gpu::launch(transpose_tokens,
              {.grid = parts * ((cols + kTransposeCols - 1) / kTransposeCols),
               .block = kTransposeThreads,
               .shared_bytes = kTransposeCols * (kTransposeTokens + 8) * 2,
               .early = early},
              stream, tokens, cols, block_tokens, gpu::Pointer<uint16_t>(reinterpret_cast<uint16_t*>(to)));
}

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
