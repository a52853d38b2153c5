// Steps on CPUs: one parallel region over all of them, the threads waiting for each other between two steps. Rows are
// split into contiguous runs of whole blocks, one run a thread.
#pragma once

#include <memory>
#include <vector>

#include "backends/backend.h"

namespace ecmv::backends::cpu {

// The second halves of unfused products, see dense_matvec.h and dense_matmul.h.
struct DenseProducts {
  void (*matvec)(const int8_t* w, int64_t rows, int64_t cols, const int8_t* x, int32_t* y);
  void (*matmul)(datasets::ElementType type, const std::byte* w, int64_t rows, int64_t cols, const float* x,
                 int64_t x_stride, int batch, float* y, int64_t y_stride);
  bool panels;  // batches are multiplied by panel_product.h instead
};

// Makes dynamic dispatch choose this instruction set (a bit of Highway's) for the whole process; 0 lets the best
// supported one be chosen again.
void select_target(int64_t target);

// `info` outlives the executor; `target` is the instruction set that select() chooses; `cores` are for its threads, as
// for Crew::of.
std::unique_ptr<Executor> make_executor(const DeviceInfo& info, DenseProducts dense, int64_t target,
                                        const std::vector<int>& cores);

}  // namespace ecmv::backends::cpu
