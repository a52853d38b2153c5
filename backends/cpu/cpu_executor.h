// Carries out steps on CPUs: one parallel region covers all of them, with a barrier between two steps. Each thread gets
// one contiguous run of whole blocks of rows.
#pragma once

#include <memory>
#include <vector>

#include "backends/backend.h"

namespace ecmv::backends::cpu {

// The second half of unfused products: dense_matvec.h and dense_matmul.h.
struct DenseProducts {
  void (*matvec)(const int8_t* w, int64_t rows, int64_t cols, const int8_t* x, int32_t* y);
  void (*matmul)(datasets::ElementType type, const std::byte* w, int64_t rows, int64_t cols, const float* x,
                 int64_t x_stride, int batch, float* y, int64_t y_stride);
  bool panels;  // multiply batches with panel_product.h instead
};

// Makes dynamic dispatch choose this instruction set (one of Highway's bits) for the whole process; 0 returns to the
// best supported one.
void select_target(int64_t target);

// `info` outlives the executor. select() chooses the instruction set `target`. Threads are bound to `cores` as by
// Crew::of.
std::unique_ptr<Executor> make_executor(const DeviceInfo& info, DenseProducts dense, int64_t target,
                                        const std::vector<int>& cores);

}  // namespace ecmv::backends::cpu
