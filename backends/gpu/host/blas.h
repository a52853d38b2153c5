// Dense products by the platform's own BLAS library, the yardstick that everybody knows: cuBLAS on NVIDIA, rocBLAS (to
// which hipBLAS forwards its calls) on AMD. The emulator has none. The library is opened at run time, so a plugin also
// loads where it is missing. A launch allocates nothing: blas_missing() makes the handle, and each call brings its
// workspace, since the library would otherwise allocate one inside a captured graph.
#pragma once

#include <string>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// "" if the library answers on the current device, else why not, as a sentence.
std::string blas_missing();

// The workspace of a product: as much as cuBLAS takes by itself on its largest devices.
inline constexpr int64_t kBlasWorkspaceBytes = int64_t{32} << 20;

// The rounding of a product of bf16 over `cols` columns: matrix units sum in parts, of which up to 64 are added.
inline ProductRounding blas_rounding(int64_t cols) {
  return {.more_roundings = 64, .unit_cols = 8, .chain_cols = cols};
}

// The operands of all products besides their matrices, in device memory: kBlasWorkspaceBytes aligned to 256, and the
// call's stream.
struct BlasPlace {
  std::byte* workspace = nullptr;
  void* stream = nullptr;
};

// `columns` products at once: w is [rows, cols] row-major, and x holds `columns` vectors [cols] and y as many [rows],
// one after the other. Asynchronous; if the library refuses, the next Stream::synchronize() throws. cols and rows are
// multiples of 4.
void blas_product(const int8_t* w, datasets::Shape shape, const int8_t* x, int columns, int32_t* y,
                  const BlasPlace& place);
// `batch` products at once of bf16 with sums in float32: w as above, token t at x + t * x_stride, its product at y + t
// * rows, or rounded at y_bf16 + t * rows if that is not null.
void blas_product(const uint16_t* w, datasets::Shape shape, const uint16_t* x, int64_t x_stride, int batch, float* y,
                  const BlasPlace& place, uint16_t* y_bf16 = nullptr);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
