// Portable kernels of ans_warp_rows: they decode row after row, the quads of a row in the order of their columns.
#include "codecs/ans_warp_rows/format.h"
#include "codecs/modelling/quad_ans/quad_ans_scalar.h"

namespace ecmv::codecs::ans_warp_rows {
namespace {

struct Decode {
  modelling::QuadMatrix matrix;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const modelling::QuadSlotTable table = modelling::quad_slot_table(matrix);
    std::byte* out = args.out;
    for (int64_t row = args.rows.begin; row < args.rows.end; ++row)
      modelling::for_each_quad(matrix, table, row, [&](int64_t, int, uint32_t symbols) {
        std::memcpy(out, &symbols, 4);
        out += 4;
      });
  }
};

struct Multiply {
  modelling::QuadMatrix matrix;
  void operator()(void*, const backends::MatvecArgs& args) const {
    const modelling::QuadSlotTable table = modelling::quad_slot_table(matrix);
    for (int64_t row = args.rows.begin; row < args.rows.end; ++row) {
      const int8_t* x = args.x;
      int32_t sum = 0;
      modelling::for_each_quad(matrix, table, row, [&](int64_t, int, uint32_t symbols) {
        sum += modelling::quad_dot(symbols, x);
        x += 4;
      });
      args.y[row] = sum;
    }
  }
};

using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "queue_per_row", .bind = modelling::bind_quads<Decode, layout_of, kQueueRows>},
    {.op = Op::matvec, .variant = "queue_per_row", .bind = modelling::bind_quads<Multiply, layout_of, kQueueRows>},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::ans_warp_rows
