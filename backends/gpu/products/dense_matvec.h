// The dense product W x on a GPU. It is the uncompressed codec's tuned kernel, and the second half of products that
// decode to memory first. One wave works on kRows rows. A lane issues kLoads independent 16-byte streaming loads a row
// before it uses the first: bytes in flight decide how much of the memory's bandwidth is reached. Rows that do not
// begin at multiples of 16 bytes are read by 4 bytes or byte by byte.
#pragma once

#include <cstdint>

#include "backends/gpu/lanes.h"
#include "backends/gpu/products/dense_matrix.h"
#include "backends/gpu/products/requantise.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

ECMV_GPU_DEVICE int32_t dot(uint4 a, uint4 b, int32_t sum) {
  sum = dot4(static_cast<int32_t>(a.x), static_cast<int32_t>(b.x), sum);
  sum = dot4(static_cast<int32_t>(a.y), static_cast<int32_t>(b.y), sum);
  sum = dot4(static_cast<int32_t>(a.z), static_cast<int32_t>(b.z), sum);
  return dot4(static_cast<int32_t>(a.w), static_cast<int32_t>(b.w), sum);
}
ECMV_GPU_DEVICE int32_t dot(uint32_t a, uint32_t b, int32_t sum) {
  return dot4(static_cast<int32_t>(a), static_cast<int32_t>(b), sum);
}
ECMV_GPU_DEVICE int32_t dot(int8_t a, int8_t b, int32_t sum) { return sum + a * b; }

// Single bytes have no streaming form.
template <typename T>
ECMV_GPU_DEVICE T load_weights(Pointer<const T> pointer) {
  if constexpr (sizeof(T) == 1)
    return *pointer;
  else
    return load_streaming(pointer);
}

// Chunk is the type of one load: uint4, uint32_t or int8_t; cols is a multiple of its elements. kResident waves must
// fit on a multiprocessor. Without that bound nvcc takes 80 registers for 8 loads, and one block of 16 waves then
// occupies a multiprocessor, which idles while that block ends and the next begins.
template <typename Chunk, int kWaves, int kLoads, int kRows, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kWaves* kLargestWave, kResident / kWaves) void dense_wave_rows(Pointer<const int8_t> w,
                                                                                               int64_t rows, int cols,
                                                                                               Pointer<const int8_t> x,
                                                                                               Epilogue epilogue) {
  const int64_t first = (block_index() * kWaves + Wave::group()) * kRows;
  let_next_begin();
  if (first >= rows) return;
  const int chunks = cols / static_cast<int>(sizeof(Chunk));
  const Pointer<const Chunk> x_chunks = cast<const Chunk>(x);
  Pointer<const Chunk> w_chunks[kRows];
  int32_t sum[kRows];
  ECMV_GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first + r < rows ? first + r : rows - 1;
    w_chunks[r] = cast<const Chunk>(w + row * cols);
    sum[r] = 0;
  }
  // Only the last step may be partial; the others run without a bound check.
  const int step = kLoads * Wave::size();
  int begin = 0;
  for (; begin + step <= chunks; begin += step) {
    Chunk weights[kRows][kLoads];
    ECMV_GPU_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ECMV_GPU_UNROLL
      for (int l = 0; l < kLoads; ++l)
        weights[r][l] = load_weights<Chunk>(w_chunks[r] + (begin + l * Wave::size() + Wave::lane()));
    }
    if (begin == 0) wait_for_previous();
    ECMV_GPU_UNROLL
    for (int l = 0; l < kLoads; ++l) {
      const Chunk inputs = x_chunks[begin + l * Wave::size() + Wave::lane()];
      ECMV_GPU_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r] = dot(weights[r][l], inputs, sum[r]);
    }
  }
  if (begin < chunks) {
    Chunk weights[kRows][kLoads];
    ECMV_GPU_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ECMV_GPU_UNROLL
      for (int l = 0; l < kLoads; ++l) {
        const int chunk = begin + l * Wave::size() + Wave::lane();
        weights[r][l] = chunk < chunks ? load_weights<Chunk>(w_chunks[r] + chunk) : Chunk{};
      }
    }
    if (begin == 0) wait_for_previous();
    ECMV_GPU_UNROLL
    for (int l = 0; l < kLoads; ++l) {
      const int chunk = begin + l * Wave::size() + Wave::lane();
      const Chunk inputs = chunk < chunks ? x_chunks[chunk] : Chunk{};
      ECMV_GPU_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r] = dot(weights[r][l], inputs, sum[r]);
    }
  }
  ECMV_GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int32_t total = Wave::reduce_add(sum[r]);
    if (Wave::lane() == 0 && first + r < rows) epilogue.store(first + r, total);
  }
}

// Calls launch_one(Chunk{}) with the widest chunk to which every row is aligned.
template <typename LaunchOne>
void for_widest_chunk(int64_t cols, LaunchOne launch_one) {
  if (cols % 16 == 0)
    launch_one(uint4{});
  else if (cols % 4 == 0)
    launch_one(uint32_t{});
  else
    launch_one(int8_t{});
}

// y and v = W x for int8 elements; asynchronous on the stream.
template <int kWaves, int kLoads, int kRows, int kResident>
void launch_dense(const DenseMatrix& matrix, void* stream, const MatvecArgs& args) {
  const datasets::Shape shape = matrix.shape;
  constexpr int64_t kRowsOfBlock = kWaves * kRows;
  const LaunchShape launch_shape{(shape.rows + kRowsOfBlock - 1) / kRowsOfBlock, kWaves * matrix.wave_size, 0,
                                 matrix.early};
  for_widest_chunk(shape.cols, [&](auto chunk) {
    launch(dense_wave_rows<decltype(chunk), kWaves, kLoads, kRows, kResident>, launch_shape, stream, matrix.i8(),
           shape.rows, shape.cols, args.x, epilogue_of(args));
  });
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
