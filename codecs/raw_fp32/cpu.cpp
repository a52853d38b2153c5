// Portable kernels of raw_fp32: conversion to int8, and the plain product in float32, exact because of what the codec
// refuses.
#include "backends/kernel.h"
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
backends::BoundKernel bind(const backends::Policy&, std::span<const backends::Layer> layers, backends::Place&) {
  return Body{elements_of(*layers[0].matrix), layers[0].matrix->shape.cols};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "convert", .bind = bind<Convert>},
    {.op = backends::Op::matvec, .variant = "rows", .bind = bind<Multiply>},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_fp32
