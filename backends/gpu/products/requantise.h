// The epilogue of every matvec kernel: the accumulator and the requantised element of one row.
#pragma once

#include <cmath>
#include <cstdint>

#include "backends/gpu/memory.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Equals backends::requantise on every device: one float32 product, ties to even, clamped. The compiler has nothing to
// contract.
ECMV_GPU_DEVICE int8_t requantise_on_device(int32_t accumulator, float scale) {
  const float rounded = rintf(static_cast<float>(accumulator) * scale);
  return static_cast<int8_t>(static_cast<int32_t>(fminf(fmaxf(rounded, -128.0f), 127.0f)));
}

struct Epilogue {
  Pointer<int32_t> y;
  Pointer<int8_t> v;
  float scale;
  // One lane calls it for every row.
  ECMV_GPU_DEVICE void store(int64_t row, int32_t accumulator) const {
    y[row] = accumulator;
    v[row] = requantise_on_device(accumulator, scale);
  }
};

inline Epilogue epilogue_of(const MatvecArgs& args) { return {args.y, args.v, args.scale}; }
inline Epilogue epilogue_of(const Layer& layer) { return {layer.y, layer.v, layer.scale}; }

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
