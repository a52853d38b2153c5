// Uncompressed elements in device memory, for the dense products. Host code.
#pragma once

#include "backends/gpu/early_launches.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

struct DenseMatrix {
  const std::byte* elements = nullptr;  // [shape] row-major, aligned to 256 bytes
  datasets::Shape shape;
  datasets::ElementType type = datasets::ElementType::i8;
  int wave_size = 0;  // of the device
  // Nothing in the stream writes the elements, so a wave may begin to load them while the previous launch runs.
  bool early = false;

  const int8_t* i8() const { return reinterpret_cast<const int8_t*>(elements); }
};

// `early` takes effect where the device can begin early.
inline DenseMatrix dense_matrix(const CompressedView& matrix, const std::byte* elements, const DeviceInfo& device,
                                bool early) {
  return {elements, matrix.shape, matrix.type, device.wave_size, early && have_early_launches(device)};
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
