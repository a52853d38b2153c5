// Portable kernels of ans_warp_stripes: one stripe of 32 rows after the other, four columns of all its rows at a time.
#include <algorithm>

#include "backends/kernel.h"
#include "codecs/ans_warp_stripes/format.h"
#include "codecs/modelling/quad_ans_scalar.h"

namespace ecmv::codecs::ans_warp_stripes {
namespace {

int64_t rows_per_block(const CompressedView&) { return kStripeRows; }

void decode(const backends::KernelCall& call) {
  const modelling::QuadLayout layout = layout_of(call.matrix->shape);
  const modelling::QuadSlotTable table = modelling::quad_slot_table(*call.matrix);
  for (int64_t row = call.row_begin; row < call.row_end; row += kStripeRows) {
    int8_t* out = call.decoded + (row - call.row_begin) * call.matrix->shape.cols;
    modelling::for_each_quad(*call.matrix, layout, table, row / kStripeRows, [&](int64_t chunk, int lane, uint32_t symbols) {
      std::memcpy(out + lane * layout.lane_stride + chunk * layout.chunk_stride, &symbols, 4);
    });
  }
}

void matvec(const backends::KernelCall& call) {
  const modelling::QuadLayout layout = layout_of(call.matrix->shape);
  const modelling::QuadSlotTable table = modelling::quad_slot_table(*call.matrix);
  for (int64_t row = call.row_begin; row < call.row_end; row += kStripeRows) {
    int32_t sums[kStripeRows] = {};
    modelling::for_each_quad(*call.matrix, layout, table, row / kStripeRows, [&](int64_t chunk, int lane, uint32_t symbols) {
      sums[lane] += modelling::quad_dot(symbols, call.x + chunk * kChunkCols);
    });
    std::copy_n(sums, kStripeRows, call.y + row);
  }
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "queue_per_stripe", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block, .launch = decode},
    {.op = backends::Op::matvec, .variant = "queue_per_stripe", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::ans_warp_stripes
