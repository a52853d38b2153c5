// Boxes of a matrix of 16-bit numbers in global memory, which one lane copies to shared memory (tensor copies of the
// tensor memory accelerator in the CUDA programming guide). NVIDIA devices since sm_90 and the emulator have them;
// kernels with such copies are refused elsewhere (have_bulk_copies of async_copy.h). A box arrives at an Arrival as
// bulk copies do. Numbers outside the matrix arrive as zeros, and count as bytes, too.
//
// A box has 64 columns. Its rows lie one after the other in shared memory, in pieces of 16 bytes that change places
// from row to row, as those of blocks of tokens do (warpgroup_units.h), so that the same piece of eight rows lies in
// different banks. A box begins at a multiple of 1024 bytes of the address.
#pragma once

#include <cstdint>

#include "backends/gpu/async_copy.h"

#if defined(ECMV_GPU_CUDA)
#include <cuda.h>
#endif

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

inline constexpr int kBoxCols = 64;

// A matrix [rows, cols] of 16-bit numbers in device memory, or several: [matrices, rows, cols]. Their address and the
// bytes from a row or a matrix to the next are multiples of 16.
struct BoxedMatrix {
  const std::byte* first;
  int64_t rows, cols, row_bytes;
  int box_rows;  // at most 256
  int64_t matrices = 1, matrix_bytes = 16;
  int box_matrices = 1;  // at most 256
};

#if defined(ECMV_GPU_EMULATOR)

struct TensorMap {
  BoxedMatrix matrix;
};
inline TensorMap tensor_map(const BoxedMatrix& matrix) {
  if (reinterpret_cast<uintptr_t>(matrix.first) % 16 != 0 || matrix.row_bytes % 16 != 0 ||
      matrix.matrix_bytes % 16 != 0)
    fail_launch("A matrix for tensor copies does not lie at multiples of 16 bytes.");
  return {matrix};
}
inline void prefetch_map(const TensorMap&) {}
inline void copy_box(const Arrival& arrival, Pointer<std::byte> shared, const TensorMap& map, int64_t row, int col,
                     int64_t number = 0) {
  const BoxedMatrix& of = map.matrix;
  const int row_bytes = 2 * kBoxCols, pieces = row_bytes / 16;
  if (reinterpret_cast<uintptr_t>(shared.address()) % static_cast<uintptr_t>(8 * row_bytes) != 0)
    fault("a box begins at no multiple of " + std::to_string(8 * row_bytes) + " bytes.");
  const Pointer<const std::byte> from(of.first);
  for (int i = 0; i < of.box_matrices * of.box_rows * pieces; ++i) {
    const int piece = i % pieces, box_row = i / pieces, r = box_row % of.box_rows, first_col = col + 8 * piece,
              moved = piece ^ box_row % 8;
    const int64_t matrix = number + box_row / of.box_rows;
    const Pointer<std::byte> to = shared + (box_row * row_bytes + moved * 16);
    const int64_t there = row + r < of.rows && matrix < of.matrices ? std::min<int64_t>(8, of.cols - first_col) : 0;
    if (there >= 8)
      arrival.copy(to, from + (matrix * of.matrix_bytes + (row + r) * of.row_bytes + 2 * first_col), 16);
    else if (there <= 0)
      arrival.copy_zeros(to);
    else
      fault("a row of boxes that is no multiple of eight numbers.");
  }
}

#else

struct alignas(64) TensorMap {
  uint64_t words[16];
};

// The description of a matrix for copy_box(), to be passed to a kernel as ECMV_GPU_GRID_CONSTANT. Host code. Where the
// driver refuses it, the next wait for the stream says so.
inline TensorMap tensor_map(const BoxedMatrix& matrix) {
  TensorMap map{};
#if defined(ECMV_GPU_CUDA)
  static_assert(sizeof(CUtensorMap) == sizeof map);
  using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                              const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  static const Encode encode = [] {
    void* found = nullptr;
#if CUDART_VERSION >= 12050
    cudaDriverEntryPointQueryResult result{};
    const Status status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
#else
    const Status status = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault);
#endif
    if (status != cudaSuccess) (void)cudaGetLastError();
    return reinterpret_cast<Encode>(status == cudaSuccess ? found : nullptr);
  }();
  const auto number = [](int64_t value) { return static_cast<cuuint64_t>(value); };
  const auto count = [](int value) { return static_cast<cuuint32_t>(value); };
  const cuuint64_t sizes[3] = {number(matrix.cols), number(matrix.rows), number(matrix.matrices)},
                   strides[2] = {number(matrix.row_bytes), number(matrix.matrix_bytes)};
  const cuuint32_t box[3] = {count(kBoxCols), count(matrix.box_rows), count(matrix.box_matrices)}, steps[3] = {1, 1, 1};
  if (encode == nullptr ||
      encode(reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_UINT16, 3,
             const_cast<std::byte*>(matrix.first), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    fail_launch("The driver cannot describe a matrix for tensor copies.");
#else
  (void)matrix;
#endif
  return map;
}

// Asks for the description, so that the first copy does not wait for it. One lane calls it.
ECMV_GPU_DEVICE void prefetch_map(const TensorMap& map) {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#else
  (void)map;
#endif
}

// Starts the copy of the box whose first number is [number, row, col]. One lane calls it, after arrival.expect()
// counted the box's bytes.
ECMV_GPU_DEVICE void copy_box(const Arrival& arrival, Pointer<std::byte> shared, const TensorMap& map, int64_t row,
                              int col, int64_t number = 0) {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(col), "r"(static_cast<int>(row)), "r"(static_cast<int>(number)), "r"(arrival.address())
      : "memory");
#else
  (void)arrival, (void)shared, (void)map, (void)row, (void)col, (void)number;
#endif
}

#endif

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
