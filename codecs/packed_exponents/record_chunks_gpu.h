// Records in products with many tokens (pipeline_gpu.h).
#pragma once

#include <algorithm>

#include "backends/gpu/launch.h"
#include "codecs/packed_exponents/pipeline_stages_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

// Records of a tile, 32 at a time, as 64 more columns: for each record the element and, taken away again, what stands
// in for it, beside its token's number, twice. Two lane groups, the clerks, look records up and gather their tokens
// while others multiply, and those multiply the chunk as they do steps. (H200, 16384 x 16384, 64 tokens: where lane
// groups that multiply looked records up, nothing was multiplied for 8 to 40 of 130 to 150 us.)
class RecordChunk {
 public:
  static constexpr int kRecords = 32, kListBytes = kRecords * 8, kClerks = 2, kGatesBytes = 2 * gpu::kGateBytes;
  // Bytes of a chunk's tokens, then the list.
  ECMV_GPU_BOTH static constexpr int bytes(int token_tiles) {
    return token_tiles * 8 * gpu::kBlockTokenBytes + kListBytes;
  }
  ECMV_GPU_DEVICE RecordChunk(gpu::Pointer<std::byte> tokens, gpu::Pointer<std::byte> list,
                              gpu::Pointer<std::byte> gates)
      : tokens_(tokens), list_(list), gates_(gates) {}
  ECMV_GPU_DEVICE void init(uint32_t readers) const {
    full().init(kClerks);
    free().init(readers);
  }
  // Chunks of a share of `records`.
  static ECMV_GPU_DEVICE int count(uint32_t records, int share, int shares) {
    const int all = static_cast<int>((records + kRecords - 1) / kRecords);
    return (all - share + shares - 1) / shares;
  }

  // A clerk writes its part of the next chunk, this lane one record. `column` has its column's numbers of all tokens.
  template <int kTokenTiles>
  ECMV_GPU_DEVICE void write(int clerk, int row, uint32_t numbers, gpu::Pointer<const gpu::uint4> column) {
    constexpr int kParts = kTokenTiles / kClerks, kAtOnce = kParts < 8 ? kParts : 8;  // of eight tokens
    const int lane = LaneGroup::lane();
    ECMV_GPU_UNROLL
    for (int begin = 0; begin < kParts; begin += kAtOnce) {
      const int first = clerk * kParts + begin;
      gpu::uint4 parts[kAtOnce];
      ECMV_GPU_UNROLL
      for (int i = 0; i < kAtOnce; ++i) parts[i] = column[first + i];
      if (begin == 0) {
        free().wait(phase_ ^ 1);
        if (clerk == 0) *gpu::cast<gpu::uint2>(list_ + lane * 8) = gpu::uint2{static_cast<uint32_t>(row), numbers};
      }
      ECMV_GPU_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        ECMV_GPU_UNROLL
        for (int k = 0; k < 8; ++k) {
          const uint32_t x = gpu::word_of(parts[i], k / 2) >> (k % 2 * 16) & 0xFFFFu, number = numbers != 0 ? x : 0u;
          // An infinite x makes what stands in infinite with the element's sign, and must not take it away.
          *gpu::cast<uint32_t>(tokens_ + gpu::pair_place(8 * (first + i) + k, lane)) =
              (number & 0x7FFFu) == 0x7F80u ? number : number * 0x10001u;
        }
      }
    }
    gpu::order_before_units();
    LaneGroup::sync();
    if (lane == 0) full().arrive();
    phase_ ^= 1;
  }
  // Lane group number `own` of the block adds the next chunk to its rows' sums; nothing else is multiplied meanwhile.
  template <int kTokenTiles>
  ECMV_GPU_DEVICE void multiply(int own, float (&sums)[kTokenTiles][4]) {
    const int lane = LaneGroup::lane(), t = lane % 4;
    const uint32_t row = static_cast<uint32_t>(own * kBlockRows + 2 * (lane / 4));
    full().wait(phase_);
    gpu::uint4 a[gpu::kUnitsOfBlock];
    ECMV_GPU_UNROLL
    for (int unit = 0; unit < gpu::kUnitsOfBlock; ++unit) {
      const auto record = [&](int k) { return *gpu::cast<const gpu::uint2>(list_ + (8 * unit + 4 * k + t) * 8); };
      const gpu::uint2 first = record(0), second = record(1);
      const auto in_row = [](const gpu::uint2& of, uint32_t wanted) { return of.x == wanted ? of.y : 0u; };
      a[unit] = {in_row(first, row), in_row(first, row + 1), in_row(second, row), in_row(second, row + 1)};
    }
    gpu::begin_products();
    ECMV_GPU_UNROLL
    for (int unit = 0; unit < gpu::kUnitsOfBlock; ++unit)
      gpu::multiply_block(a[unit], gpu::SharedBlocks(tokens_), 0, unit, sums);
    gpu::commit_products();
    gpu::wait_for_products();
    LaneGroup::sync();
    if (lane == 0) free().arrive();
    phase_ ^= 1;
  }

 private:
  gpu::Pointer<std::byte> tokens_, list_, gates_;
  int phase_ = 0;
  ECMV_GPU_DEVICE gpu::Gate full() const { return gpu::Gate(gates_); }
  ECMV_GPU_DEVICE gpu::Gate free() const { return gpu::Gate(gates_ + gpu::kGateBytes); }
};

// Number of a tile's first record, or of its last block's end.
ECMV_GPU_DEVICE uint64_t record_bound(const FieldsOnGpu& matrix, int64_t block) {
  const int64_t blocks = (matrix.rows + kBlockRows - 1) / kBlockRows;
  return matrix.blocks[block < blocks ? block : blocks];
}

// The columns of tokens, [cols, kTokens], for records: a column of all tokens lies together.
inline constexpr int kTransposeThreads = 256, kTransposeCols = 64;
template <int kTokens>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kTransposeThreads, 1) void transpose_tokens(gpu::Bf16Tokens tokens, int cols,
                                                                            gpu::Pointer<uint16_t> to) {
  constexpr int kStride =
      kTokens + 2;  // of a column in shared memory: lanes of neighbouring columns in different banks
  const gpu::Pointer<uint16_t> tile = gpu::cast<uint16_t>(gpu::shared_memory());
  gpu::let_next_begin();
  gpu::wait_for_previous();
  const int first = static_cast<int>(gpu::block_index()) * kTransposeCols;
  for (int i = gpu::thread_index(); i < kTokens * kTransposeCols / 2; i += kTransposeThreads) {
    const int token = i / (kTransposeCols / 2), col = i % (kTransposeCols / 2) * 2;
    const uint32_t two = token < tokens.batch && first + col < cols
                             ? *gpu::cast<const uint32_t>(tokens.x + (token * tokens.x_stride + first + col))
                             : 0u;
    tile[col * kStride + token] = static_cast<uint16_t>(two);
    tile[(col + 1) * kStride + token] = static_cast<uint16_t>(two >> 16);
  }
  gpu::sync_block();
  for (int i = gpu::thread_index(); i < kTokens * kTransposeCols / 2; i += kTransposeThreads) {
    const int col = i / (kTokens / 2), token = i % (kTokens / 2) * 2;
    if (first + col < cols)
      *gpu::cast<uint32_t>(to + (int64_t{first + col} * kTokens + token)) =
          *gpu::cast<const uint32_t>(tile + (col * kStride + token));
  }
}
inline int64_t transposed_bytes(int tokens, int64_t cols) { return cols * tokens * 2; }
template <int kTokens>
void enqueue_transposed_tokens(void* stream, const gpu::Bf16Tokens& tokens, int cols, std::byte* to, bool early) {
  gpu::launch(transpose_tokens<kTokens>,
              {(cols + kTransposeCols - 1) / kTransposeCols, kTransposeThreads,
               int64_t{kTransposeCols} * (kTokens + 2) * 2, early},
              stream, tokens, cols, gpu::Pointer<uint16_t>(reinterpret_cast<uint16_t*>(to)));
}

// A clerk: all lanes of its lane group call this.
template <int kTokenTiles>
ECMV_GPU_DEVICE void keep_records(const FieldsOnGpu& matrix, const PipelinePlan& plan, RecordChunk chunk,
                                  gpu::Pointer<const std::byte> columns, int clerk) {
  const int lane = LaneGroup::lane(), blocks = plan.warpgroups * gpu::kWarpgroup;
  gpu::wait_for_previous();
  for (int64_t number = gpu::block_index(); number < plan.tiles; number += gpu::grid_size()) {
    const PipelineTile tile(plan, number);
    const uint64_t begin = record_bound(matrix, tile.first_block);
    // Lane l has the end of block l of the tile.
    const auto own_end =
        static_cast<uint32_t>(record_bound(matrix, tile.first_block + (lane < blocks ? lane : blocks - 1) + 1) - begin);
    const uint32_t count = LaneGroup::pick(own_end, blocks - 1);
    const int chunks = RecordChunk::count(count, tile.share, plan.shares);
    // A record, then the words that have its element, then its tokens: each is asked for while those of the chunk
    // before are on their way, so a chunk takes one trip to memory and not three.
    const auto number_of = [&](int i) {
      return static_cast<uint32_t>((tile.share + i * plan.shares) * RecordChunk::kRecords + lane);
    };
    const auto record_of = [&](int i) {
      return number_of(i) < count ? matrix.records[static_cast<int64_t>(begin + number_of(i))] : 0u;
    };
    struct Found {
      int block = 0;
      uint32_t record = 0;
      BlockPlace::ElementWords words{};
    };
    const auto find = [&](int i, uint32_t record) {
      Found found{.record = record};
      for (int k = 0; k < blocks; ++k) found.block += LaneGroup::shuffle(own_end, k) <= number_of(i) ? 1 : 0;
      const Outlier outlier(record);
      if (number_of(i) < count)
        found.words = BlockPlace(matrix, tile.first_block + found.block).load(outlier.row, outlier.col);
      return found;
    };
    if (chunks == 0) continue;
    Found next = find(0, record_of(0));
    uint32_t record = record_of(1);
    for (int i = 0; i < chunks; ++i) {
      const Found found = next;
      next = find(i + 1, record);
      record = record_of(i + 2);
      const Outlier outlier(found.record);
      uint32_t numbers = 0;
      if (number_of(i) < count) {
        const uint32_t stored = BlockPlace(matrix, tile.first_block + found.block).stored(found.words, outlier.col);
        numbers = outlier.element(stored) | (stored ^ 0x8000u) << 16;
      }
      LaneGroup::sync();
      chunk.template write<kTokenTiles>(
          clerk, numbers != 0 ? found.block * kBlockRows + outlier.row : -1, numbers,
          gpu::cast<const gpu::uint4>(columns + int64_t{outlier.col} * (kTokenTiles * 16)));
    }
  }
}

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
