// Portable kernels of packed_exponents: rows are decoded one by one, and multiplied as bf16.
#include "backends/cpu/products/dense_matmul.h"
#include "backends/kernel.h"
#include "codecs/packed_exponents/stored.h"

namespace ecmv::codecs::packed_exponents {
namespace {

// Decodes rows [begin, end) but for what records say.
void decode_fields(const Stored& stored, backends::Rows rows, std::byte* out) {
  for (int64_t row = rows.begin; row < rows.end; ++row)
    stored.decode_row(row, out + 2 * (row - rows.begin) * stored.cols);
}
void decode_rows(const Stored& stored, backends::Rows rows, std::byte* out) {
  decode_fields(stored, rows, out);
  stored.each_record(rows, [&](int64_t row, int64_t col, uint16_t element, uint16_t) {
    std::memcpy(out + 2 * ((row - rows.begin) * stored.cols + col), &element, 2);
  });
}

struct Decode {
  Stored stored;
  void operator()(void*, const backends::DecodeArgs& args) const { decode_rows(stored, args.rows, args.out); }
};

// The scratch holds a block of rows.
struct Multiply {
  Stored stored;
  int batch;
  void operator()(void*, const backends::MatmulArgs& args) const {
    for (int64_t row = args.rows.begin; row < args.rows.end; row += kRowsPerBlock) {
      const backends::Rows block{row, std::min(row + kRowsPerBlock, args.rows.end)};
      decode_rows(stored, block, args.scratch);
      backends::cpu::dense_matmul_scalar(datasets::ElementType::bf16, args.scratch, block.count(), stored.cols, args.x,
                                         args.x_stride, batch, args.y + row, args.y_stride);
    }
  }
};

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return {Decode{stored_of(*layers[0].matrix)}, {.rows_per_block = kRowsPerBlock}};
}
backends::BoundKernel bind_matmul(const backends::Policy&, backends::Layers layers, int batch, backends::Place&) {
  const Stored stored = stored_of(*layers[0].matrix);
  return {Multiply{stored, batch}, {.rows_per_block = kRowsPerBlock, .scratch_bytes = 2 * kRowsPerBlock * stored.cols}};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "groups", .bind = bind_decode},
    {.op = backends::Op::matmul, .variant = "groups", .bind = bind_matmul},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_exponents
