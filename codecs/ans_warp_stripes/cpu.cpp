// Portable kernels of ans_warp_stripes: they decode stripe after stripe, four columns of all 32 rows at a time.
#include <algorithm>

#include "codecs/ans_warp_stripes/format.h"
#include "codecs/modelling/quad_ans/quad_ans_scalar.h"

namespace ecmv::codecs::ans_warp_stripes {
namespace {

struct Decode {
  modelling::QuadMatrix matrix;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const modelling::QuadSlotTable table = modelling::quad_slot_table(matrix);
    const int64_t cols = matrix.shape.cols;
    for (int64_t row = args.rows.begin; row < args.rows.end; row += kStripeRows) {
      std::byte* out = args.out + (row - args.rows.begin) * cols;
      modelling::for_each_quad(matrix, table, row / kStripeRows, [&](int64_t chunk, int lane, uint32_t symbols) {
        std::memcpy(out + lane * cols + chunk * kChunkCols, &symbols, 4);
      });
    }
  }
};

struct Multiply {
  modelling::QuadMatrix matrix;
  void operator()(void*, const backends::MatvecArgs& args) const {
    const modelling::QuadSlotTable table = modelling::quad_slot_table(matrix);
    const int8_t* x = args.x;
    for (int64_t row = args.rows.begin; row < args.rows.end; row += kStripeRows) {
      int32_t sums[kStripeRows] = {};
      modelling::for_each_quad(matrix, table, row / kStripeRows, [&](int64_t chunk, int lane, uint32_t symbols) {
        sums[lane] += modelling::quad_dot(symbols, x + chunk * kChunkCols);
      });
      std::copy_n(sums, kStripeRows, args.y + row);
    }
  }
};

using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "queue_per_stripe", .bind = modelling::bind_quads<Decode, layout_of, kStripeRows>},
    {.op = Op::matvec, .variant = "queue_per_stripe", .bind = modelling::bind_quads<Multiply, layout_of, kStripeRows>},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::ans_warp_stripes
