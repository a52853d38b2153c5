// Portable kernels of raw_fp32: conversion to int8, and the plain product in float32, exact because of what the codec refuses.
#include "backends/kernel.h"
#include "codecs/raw_fp32/format.h"

namespace ecmv::codecs::raw_fp32 {
namespace {

const float* rows_from(const backends::KernelCall& call) {
  return reinterpret_cast<const float*>(call.matrix->sections[kElements].bytes.data()) + call.row_begin * call.matrix->shape.cols;
}

void decode(const backends::KernelCall& call) {
  const int64_t count = (call.row_end - call.row_begin) * call.matrix->shape.cols;
  const float* w = rows_from(call);
  for (int64_t i = 0; i < count; ++i) call.decoded[i] = static_cast<int8_t>(w[i]);
}

void matvec(const backends::KernelCall& call) {
  const int64_t cols = call.matrix->shape.cols;
  const float* w = rows_from(call);
  for (int64_t row = call.row_begin; row < call.row_end; ++row, w += cols) {
    float sum = 0;
    for (int64_t col = 0; col < cols; ++col) sum += w[col] * static_cast<float>(call.x[col]);
    call.y[row] = static_cast<int32_t>(sum);
  }
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "convert", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = decode},
    {.op = backends::Op::matvec, .variant = "rows", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_fp32
