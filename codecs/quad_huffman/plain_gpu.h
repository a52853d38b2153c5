// Kernels for matrices that are stored as they are (plain.h): a copy, and the dense product.
#pragma once

#include <span>
#include <string>

#include "backends/gpu/copy_bytes.h"
#include "backends/gpu/products/dense_matvec.h"
#include "codecs/quad_huffman/plain.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

// 8 waves a block with 8 loads a lane, 24 waves a multiprocessor: the fastest of raw_int8's policies on an H200.
struct MultiplyPlain {
  gpu::DenseMatrix matrix;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch_dense<8, 8, 1, 24>(matrix, stream, args);
  }
};

template <backends::Op kOp>
std::string refuses_plain(const backends::CompressedView& view, const backends::DeviceInfo&, const backends::Policy&) {
  if (kOp == backends::Op::matvec && view.type != datasets::ElementType::i8)
    return "The kernel multiplies int8 elements.";
  return is_plain(view) ? "" : kRefusesCodes;
}

inline backends::BoundKernel bind_plain_decode(const backends::Policy&, backends::Layers layers, int,
                                               backends::Place&) {
  const auto& elements = layers[0].matrix->sections[kRaw].bytes;
  return gpu::CopyElements{elements.data(), static_cast<int64_t>(elements.size())};
}
inline backends::BoundKernel bind_plain_matvec(const backends::Policy&, backends::Layers layers, int,
                                               backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  return {MultiplyPlain{gpu::dense_matrix(view, view.sections[kRaw].bytes.data(), place.device(), true)},
          {.requantises = true}};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
