// SIMD kernels of raw_fp32: products by panels, and by a BLAS's sgemm beside them.
#include "backends/cpu/products/blas.h"
#include "backends/cpu/products/element_numbers.h"
#include "backends/cpu/products/panel_product.h"
#include "codecs/compressed_matrix.h"
#include "codecs/raw_fp32/format.h"

namespace ecmv::codecs::raw_fp32 {
namespace {

backends::BoundKernel bind_panels(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  return backends::cpu::bind_panels(policy,
                                    {datasets::ElementType::f32, matrix.sections[kElements].bytes.data(),
                                     4 * matrix.shape.cols, matrix.shape.rows, matrix.shape.cols, true},
                                    batch);
}

// bf16 tokens first become float32 in the scratch.
struct Blas {
  const float* elements;
  datasets::Shape shape;
  int threads, batch;
  void operator()(void*, const backends::MatmulArgs& args) const {
    const float* x = args.x;
    if (args.x_bf16 != nullptr) {
      float* const widened = reinterpret_cast<float*>(args.scratch);
      for (int64_t i = 0; i < batch * args.x_stride; ++i) widened[i] = backends::cpu::bf16_number(args.x_bf16[i]);
      x = widened;
    }
    backends::cpu::sgemm({elements + args.rows.begin * shape.cols, args.rows.count(), shape.cols, x, args.x_stride,
                          batch, args.y + args.rows.begin, args.y_stride, threads});
  }
};

std::string refuses_blas(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return backends::cpu::why_no_sgemm(matrix.shape);
}
template <backends::Activations kActivations>
backends::BoundKernel bind_blas(const backends::Policy& policy, backends::Layers layers, int batch,
                                backends::Place& place) {
  const bool own_threads = policy.as<backends::cpu::BlasPolicy>().own_threads;
  const datasets::Shape shape = layers[0].matrix->shape;
  // x_stride is less than 64 numbers more than cols.
  const int64_t widened_bytes = kActivations == backends::Activations::f32 ? 0 : 4 * batch * (shape.cols + 64);
  return {Blas{elements_of(*layers[0].matrix), shape, own_threads ? place.device().threads : 1, batch},
          {.rows_per_block = own_threads ? shape.rows : 1,
           .scratch_bytes = widened_bytes,
           .rounding = backends::cpu::kSgemmRounding}};
}

using enum backends::Activations;
using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::matmul, .variant = "panels", .policies = backends::cpu::kFloatPanels, .bind = bind_panels},
    {.op = Op::matmul,
     .variant = "panels",
     .policies = backends::cpu::kFloatPanels,
     .activations = bf16,
     .bind = bind_panels},
    {.op = Op::matmul,
     .variant = "blas",
     .policies = backends::cpu::kBlasPolicies,
     .most_tokens = backends::kMostTokens,
     .refuses = refuses_blas,
     .bind = bind_blas<f32>},
    {.op = Op::matmul,
     .variant = "blas",
     .policies = backends::cpu::kBlasPolicies,
     .activations = bf16,
     .most_tokens = backends::kMostTokens,
     .refuses = refuses_blas,
     .bind = bind_blas<bf16>},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_fp32
