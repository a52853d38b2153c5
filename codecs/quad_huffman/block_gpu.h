// What a thread block of the product kernels has in shared memory besides its workers' rings: copies of the table, sums of rows, and x.
#pragma once

#include "codecs/quad_huffman/segment_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// What a launch is told about the matrix.
struct Matrix {
  gpu::Pointer<const uint32_t> table;
  Streams streams;
  int entries;      // 2^T
  int lowest;
  int64_t row_groups;
  int64_t rows;
  int cols, column_tiles;
};

// Where things lie in a block's shared memory, in bytes from its beginning, where the table is.
struct Plan {
  int copies, copy_shift;          // of the table
  int workers, workers_of_rows;    // of a block; those that share rows
  int rings, sums, inputs;         // the workers' rings; sums of rows and, behind them, that of x; x
  int bytes;
};

// Entry number thread_index() of the table, of those that there are.
template <int kSymbolCols>
ECMV_GPU_DEVICE Entry load_entry(const Matrix& matrix, int number) {
  if (number >= matrix.entries) return {};
  if constexpr (kSymbolCols == 8) {
    const gpu::uint2 pair = gpu::load_shared_by_many(gpu::cast<const gpu::uint2>(matrix.table) + number);
    return {pair.x, pair.y};
  } else {
    return {gpu::load_shared_by_many(matrix.table + number), 0};
  }
}

// Makes the copies of the table; `own` is this thread's load_entry(matrix, thread_index()). A worker takes 32 entries at a time and stores the
// copies line by line out of its lanes' registers. (With one load a word, a layer of d = 16384 with 32 copies took an H200 56.4 us
// instead of 52.8.)
template <int kSymbolCols>
ECMV_GPU_DEVICE void fill_table(const Matrix& matrix, const Plan& plan, Entry own) {
  for (int first = Worker::group() * kLanes; first < matrix.entries; first += gpu::block_size()) {
    if (first != Worker::group() * kLanes) own = load_entry<kSymbolCols>(matrix, first + Worker::lane());
    for (int i = Worker::lane(); i < kLanes << plan.copy_shift; i += kLanes) {
      const int to = (first << plan.copy_shift) + i, from = i >> plan.copy_shift;
      if constexpr (kSymbolCols == 8)
        gpu::cast<gpu::uint2>(gpu::shared_memory())[to] = gpu::uint2{Worker::shuffle(own.first, from), Worker::shuffle(own.second, from)};
      else
        gpu::cast<uint32_t>(gpu::shared_memory())[to] = Worker::shuffle(own.first, from);
    }
  }
}

// This lane's copy.
template <int kSymbolCols>
ECMV_GPU_DEVICE Table<kSymbolCols> table_of(const Matrix& matrix, const Plan& plan) {
  constexpr int kEntryBytes = kSymbolCols == 8 ? 8 : 4;
  return {gpu::SharedWords(gpu::shared_memory() + kEntryBytes * (Worker::lane() & (plan.copies - 1))), static_cast<uint32_t>(matrix.entries - 1), kEntryBytes * plan.copies};
}

ECMV_GPU_DEVICE int32_t sum_of_bytes(uint32_t word, int32_t sum) { return gpu::dot4(0x01010101, static_cast<int32_t>(word), sum); }

// Adds up what the threads of a worker have.
ECMV_GPU_DEVICE void add_to(gpu::Pointer<int32_t> sum, int32_t own) {
  own = Worker::reduce_add(own);
  if (Worker::lane() == 0 && own != 0) gpu::atomic_add(sum, own);
}

// Copies x to shared memory, zeros behind the last column, for there are codes as well, and adds its elements to *sum.
ECMV_GPU_DEVICE void load_inputs(gpu::Pointer<const int8_t> x, int cols, int stored_cols, gpu::Pointer<std::byte> to, gpu::Pointer<int32_t> sum) {
  int32_t own = 0;
  for (int col = gpu::thread_index() * 16; col < stored_cols; col += gpu::block_size() * 16) {
    const gpu::uint4 words = col < cols ? *gpu::cast<const gpu::uint4>(x + col) : gpu::uint4{};
    *gpu::cast<gpu::uint4>(to + col) = words;
    own = sum_of_bytes(words.w, sum_of_bytes(words.z, sum_of_bytes(words.y, sum_of_bytes(words.x, own))));
  }
  add_to(sum, own);
}

// Adds the products of the tiles that `tile` has begun, with x at `inputs` in shared memory, to the sums of their rows.
template <typename TileOf, int kSymbolCols, int kTiles>
ECMV_GPU_DEVICE void multiply_tile(TileOf& tile, const Table<kSymbolCols>& table, gpu::Pointer<const std::byte> inputs, gpu::Pointer<int32_t> sums) {
  tile.add_patches(gpu::cast<const int8_t>(inputs), sums);
  const gpu::Pointer<const gpu::uint4> own_inputs = gpu::cast<const gpu::uint4>(inputs + tile.first_col());
  int32_t products[kTiles] = {};
  gpu::uint4 input{};
  tile.decode(table, [&](int t, int segment, int quad, uint32_t bytes) {
    if (t == 0 && quad % 4 == 0) input = own_inputs[segment * (TileOf::kSegmentCols / 16) + quad / 4];
    const uint32_t four = quad % 4 == 0 ? input.x : quad % 4 == 1 ? input.y : quad % 4 == 2 ? input.z : input.w;
    products[t] = gpu::dot4_unsigned_signed(bytes, static_cast<int32_t>(four), products[t]);
  });
  ECMV_GPU_UNROLL
  for (int t = 0; t < kTiles; ++t) gpu::atomic_add(sums + (t * kLanes + Worker::lane()), TileOf::kDoubled ? products[t] / 2 : products[t]);
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
