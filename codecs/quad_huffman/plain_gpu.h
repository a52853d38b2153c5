// Kernels for matrices that are stored as they are (plain.h): a copy, and the dense product.
#pragma once

#include <span>
#include <string>

#include "backends/gpu/dense_matvec.h"
#include "codecs/quad_huffman/plain.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

inline constexpr int kPlainThreads = 256;

// Bytes beyond the last whole 16 are copied one by one.
ECMV_GPU_KERNEL void copy_plain(gpu::Pointer<const std::byte> from, gpu::Pointer<std::byte> to, int64_t bytes) {
  const int64_t at = (gpu::block_index() * kPlainThreads + gpu::thread_index()) * 16;
  if (at + 16 <= bytes) {
    *gpu::cast<gpu::uint4>(to + at) = gpu::load_streaming(gpu::cast<const gpu::uint4>(from + at));
  } else {
    for (int64_t i = at; i < bytes; ++i) to[i] = from[i];
  }
}

struct CopyPlain {
  const std::byte* elements;
  int64_t bytes;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    const int64_t chunks = (bytes + 15) / 16;
    gpu::launch(copy_plain, {(chunks + kPlainThreads - 1) / kPlainThreads, kPlainThreads, 0}, stream, elements,
                args.out, bytes);
  }
};

// 8 waves a block with 8 loads a lane, 24 waves a multiprocessor: the fastest of raw_int8's policies on an H200.
struct MultiplyPlain {
  gpu::DenseMatrix matrix;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch_dense<8, 8, 1, 24>(matrix, stream, args);
  }
};

template <backends::Op kOp>
std::string refuses_plain(const codecs::CompressedView& view, const backends::DeviceInfo&, const backends::Policy&) {
  if (kOp == backends::Op::matvec && view.type != datasets::ElementType::i8)
    return "The kernel multiplies int8 elements.";
  return is_plain(view) ? "" : kRefusesCodes;
}

inline backends::BoundKernel bind_plain_decode(const backends::Policy&, std::span<const backends::Layer> layers,
                                               backends::Place&) {
  const auto& elements = layers[0].matrix->sections[kRaw].bytes;
  return CopyPlain{elements.data(), static_cast<int64_t>(elements.size())};
}
inline backends::BoundKernel bind_plain_matvec(const backends::Policy&, std::span<const backends::Layer> layers,
                                               backends::Place& place) {
  const codecs::CompressedView& view = *layers[0].matrix;
  return {MultiplyPlain{gpu::dense_matrix(view, view.sections[kRaw].bytes.data(), place.device(), true)},
          {.requantises = true}};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
