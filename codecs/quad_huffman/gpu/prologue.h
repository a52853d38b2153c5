// A thread block's shared memory besides its lane groups' rings: copies of the table, sums of rows, and x.
#pragma once

#include "backends/gpu/products/int8_inputs.h"
#include "codecs/quad_huffman/gpu/tile/lanes.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// The matrix as kernels see it.
struct Matrix {
  gpu::Pointer<const uint32_t> table;
  Streams streams;
  int entries;          // 2^T
  bool exponent_quads;  // whether entries are made exponent_quads() in shared memory
  int lowest;
  // Symbols of eight exponents: the value that takes the place of `lowest` in products, where numbers of bf16 have
  // their exponents, and the power of two that multiplies products in return.
  uint32_t base;
  int power;
  int64_t row_groups;
  int64_t rows;            // the matrix's
  int cols, column_tiles;  // the stored matrix's
};

// The columns of some column tiles: those up to the matrix's last one, and those that have codes.
struct TileCols {
  int first, end, stored;
};
ECMV_GPU_DEVICE TileCols cols_of_tiles(const Matrix& matrix, int first_tile, int tiles, int segment_cols) {
  const int tile_cols = matrix.streams.tile_segments * segment_cols, first = first_tile * tile_cols,
            left = matrix.streams.row_segments * segment_cols - first, all = tiles * tile_cols;
  return {first, matrix.cols, left < all ? left : all};
}

// Places in a block's shared memory, in bytes from its beginning, where the table is.
struct BlockPlan {
  int copies = 0, copy_shift = 0;                // the table's
  int lane_groups = 0, lane_groups_of_rows = 0;  // a block's; how many share rows
  int rings = 0, sums = 0, inputs = 0;           // the lane groups' rings; sums of rows, then the sum of x; x
  int bytes = 0;
  int table_bits = 0, own_bytes = 0;  // a chain's most; a lane group's
};

// Threads that fill a table together: all of a block, or some.
struct Threads {
  int own, count;
};
ECMV_GPU_DEVICE Threads all_threads() { return {gpu::thread_index(), gpu::block_size()}; }

// The entries that this thread copies, the first of them. The number of entries is a power of two; threads
// beyond that many share the work on one. A kernel loads them as it begins, before anything that it has to wait for, so
// they cost no time of their own.
struct OwnEntries {
  static constexpr int kCount = 4;
  uint32_t entry[kCount];

  // A value that depends on all of them.
  ECMV_GPU_DEVICE uint32_t all() const {
    uint32_t all = 0;
    ECMV_GPU_UNROLL
    for (int k = 0; k < kCount; ++k) all |= entry[k];
    return all;
  }
};
ECMV_GPU_DEVICE OwnEntries load_own_entries(const Matrix& matrix, Threads threads = all_threads(), int further = 0) {
  OwnEntries own{};
  const int first = (threads.own & (matrix.entries - 1)) + further * threads.count;
  ECMV_GPU_UNROLL
  for (int k = 0; k < OwnEntries::kCount; ++k)
    if (const int number = first + k * threads.count; number < matrix.entries)
      own.entry[k] = gpu::load_shared_by_many(matrix.table + number);
  return own;
}

// Makes the copies of the table at `table` in shared memory; `own` is this thread's load_own_entries(matrix). Stores 16
// bytes at a time, those of eight lanes to different banks. (H200, d = 16384, 32 copies: loaded word by word 56.4 us a
// layer; entries handed from lane to lane, so that copies are stored line by line, 52.8. In chain.cu, where the table
// is a larger part of the time, the second way took 2200 clocks a layer of d = 4096 and this way takes 1400. nvcc
// divides for `/ entries` and for loops over threads that it unrolls; without these divisions matvec runs at 5.80 T
// elements/s instead of 5.69 at d = 8192.)
ECMV_GPU_DEVICE void fill_table(const Matrix& matrix, const BlockPlan& plan, OwnEntries own,
                                Threads threads = all_threads(), gpu::Pointer<std::byte> table = gpu::shared_memory()) {
  constexpr int kEntryBytes = 4, kChunkBytes = 16, kCount = OwnEntries::kCount;
  const int bytes = kEntryBytes << plan.copy_shift, chunks = bytes / kChunkBytes,
            first = threads.own & (matrix.entries - 1),
            entries_bits = 31 - gpu::leading_zeros(static_cast<uint32_t>(matrix.entries));
  const int of_entry = threads.count >> entries_bits, most = of_entry < chunks ? of_entry : chunks,
            sharers = most > 0 ? most : 1, sharer = threads.own >> entries_bits;
  const int turn = threads.own % 8 * chunks / 8 + sharer;
  if (sharer >= sharers) return;
  ECMV_GPU_NO_UNROLL
  for (int done = 0; first + done * threads.count < matrix.entries; done += kCount) {
    if (done > 0) own = load_own_entries(matrix, threads, done);
    ECMV_GPU_UNROLL
    for (int k = 0; k < kCount; ++k) {
      const int number = first + (done + k) * threads.count;
      if (number >= matrix.entries) break;
      const uint32_t entry = matrix.exponent_quads ? exponent_quads(own.entry[k]) : own.entry[k];
      const gpu::Pointer<std::byte> to = table + number * bytes;
      for (int i = 0; i < chunks; i += sharers)
        gpu::cast<gpu::uint4>(to)[(turn + i) & (chunks - 1)] = gpu::uint4{entry, entry, entry, entry};
      if (chunks > 0) continue;
      gpu::cast<uint32_t>(to)[0] = entry;
      if (bytes == 2 * kEntryBytes) gpu::cast<uint32_t>(to)[1] = entry;
    }
  }
}

// Selects this lane's copy.
ECMV_GPU_DEVICE Table table_of(const Matrix& matrix, const BlockPlan& plan,
                               gpu::Pointer<std::byte> table = gpu::shared_memory()) {
  constexpr int kEntryBytes = 4;
  const uint32_t distance = kEntryBytes * static_cast<uint32_t>(plan.copies);
  return {table, static_cast<uint32_t>(matrix.entries - 1) * distance, distance,
          static_cast<uint32_t>(kEntryBytes * (LaneGroup::lane() & (plan.copies - 1)))};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
