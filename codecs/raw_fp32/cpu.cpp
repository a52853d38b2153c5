// Portable kernels of raw_fp32: conversion to int8 or bf16, and the plain product of int8 in float32. The product is
// exact, because the codec refuses matrices for which it would not be.
#include <cstring>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/raw_fp32/format.h"

namespace ecmv::codecs::raw_fp32 {
namespace {

struct Convert {
  const float* elements;
  int64_t cols;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const int64_t count = args.rows.count() * cols;
    const float* w = elements + args.rows.begin * cols;
    auto* out = reinterpret_cast<int8_t*>(args.out);
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int8_t>(w[i]);
  }
};

struct ConvertHalves {
  const float* elements;
  int64_t cols;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const int64_t count = args.rows.count() * cols;
    const auto* from = reinterpret_cast<const std::byte*>(elements + args.rows.begin * cols);
    for (int64_t i = 0; i < count; ++i) std::memcpy(args.out + 2 * i, from + 4 * i + 2, 2);
  }
};

struct Multiply {
  const float* elements;
  int64_t cols;
  void operator()(void*, const backends::MatvecArgs& args) const {
    const float* w = elements + args.rows.begin * cols;
    for (int64_t row = args.rows.begin; row < args.rows.end; ++row, w += cols) {
      float sum = 0;
      for (int64_t col = 0; col < cols; ++col) sum += w[col] * static_cast<float>(args.x[col]);
      args.y[row] = static_cast<int32_t>(sum);
    }
  }
};

template <typename Body>
backends::BoundKernel bind(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return Body{elements_of(*layers[0].matrix), layers[0].matrix->shape.cols};
}

backends::BoundKernel bind_convert(const backends::Policy& policy, backends::Layers layers, int batch,
                                   backends::Place& place) {
  const bool int8 = layers[0].matrix->type == datasets::ElementType::i8;
  return int8 ? bind<Convert>(policy, layers, batch, place) : bind<ConvertHalves>(policy, layers, batch, place);
}
std::string refuses_matvec(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return why_not_int8(matrix);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "convert", .bind = bind_convert},
    {.op = backends::Op::matvec, .variant = "rows", .refuses = refuses_matvec, .bind = bind<Multiply>},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_fp32
