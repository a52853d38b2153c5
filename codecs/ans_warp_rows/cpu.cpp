// Portable kernels of ans_warp_rows: the quads of one row after the other, in the order of their columns.
#include "backends/kernel.h"
#include "codecs/ans_warp_rows/format.h"
#include "codecs/modelling/quad_ans_scalar.h"

namespace ecmv::codecs::ans_warp_rows {
namespace {

void decode(const backends::KernelCall& call) {
  const modelling::QuadLayout layout = layout_of(call.matrix->shape);
  const modelling::QuadSlotTable table = modelling::quad_slot_table(*call.matrix);
  int8_t* out = call.decoded;
  for (int64_t row = call.row_begin; row < call.row_end; ++row)
    modelling::for_each_quad(*call.matrix, layout, table, row, [&](int64_t, int, uint32_t symbols) {
      std::memcpy(out, &symbols, 4);
      out += 4;
    });
}

void matvec(const backends::KernelCall& call) {
  const modelling::QuadLayout layout = layout_of(call.matrix->shape);
  const modelling::QuadSlotTable table = modelling::quad_slot_table(*call.matrix);
  for (int64_t row = call.row_begin; row < call.row_end; ++row) {
    const int8_t* x = call.x;
    int32_t sum = 0;
    modelling::for_each_quad(*call.matrix, layout, table, row, [&](int64_t, int, uint32_t symbols) {
      sum += modelling::quad_dot(symbols, x);
      x += 4;
    });
    call.y[row] = sum;
  }
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "queue_per_row", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = decode},
    {.op = backends::Op::matvec, .variant = "queue_per_row", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::ans_warp_rows
