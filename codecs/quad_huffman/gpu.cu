// The table of quad_huffman's kernels on GPUs (gpu/), and the kernels for matrices that are stored as they are: a
// copy, and the dense product.
#include <span>
#include <string>

#include "backends/gpu/copy_bytes.h"
#include "backends/gpu/products/dense_matvec.h"
#include "codecs/quad_huffman/format/header.h"
#include "codecs/quad_huffman/gpu/kernels.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

// 8 groups a block with 8 loads a lane, 24 groups a multiprocessor: the fastest of raw_int8's policies on an H200.
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

backends::BoundKernel bind_plain_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const auto& elements = layers[0].matrix->sections[kRaw].bytes;
  return gpu::CopyElements{elements.data(), static_cast<int64_t>(elements.size())};
}
backends::BoundKernel bind_plain_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  return {MultiplyPlain{gpu::dense_matrix(view, view.sections[kRaw].bytes.data(), place.device(), true)},
          {.requantises = true}};
}

}  // namespace

std::span<const backends::Kernel> gpu_kernels() {
  // Beyond these numbers of tokens a kernel reads the matrix again; where there is a later one that does not, it is
  // 2.6 to 3.1 times as fast with 64 tokens (2026-11-27-h200/headline, `fragments`), and 1.4 times with 128
  // (notes/many_tokens.md).
  using backends::up_to;
  static const backends::Kernel kernels[] = {
      decode_rows(),
      vector_int8(),
      vector_units(),
      strips(),
      chain(),
      up_to(1, float_token()),
      up_to(1, one_token()),
      up_to(16, fragments()),
      up_to(16, digits()),
      up_to(64, fragments_many()),
      up_to(128, fragment_slabs()),
      {.op = backends::Op::decode,
       .variant = "plain",
       .refuses = refuses_plain<backends::Op::decode>,
       .bind = bind_plain_decode},
      {.op = backends::Op::matvec,
       .variant = "plain",
       .refuses = refuses_plain<backends::Op::matvec>,
       .bind = bind_plain_matvec},
  };
  return kernels;
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
