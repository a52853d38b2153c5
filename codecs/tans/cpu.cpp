// Portable kernels of tans; the loop is in decode_steps.inc. The product decodes a piece of a block into a first-level
// buffer and multiplies it there.
#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/piece_product.h"
#include "backends/kernel.h"
#include "codecs/tans/format.h"
#include "codecs/tans/model.h"

namespace ecmv::codecs::tans {
namespace {

#include "codecs/tans/decode_steps.inc"

void decode(const backends::KernelCall& call) { DecodeToMemory(call); }

void matvec(const backends::KernelCall& call) {
  std::fill(call.y + call.row_begin, call.y + call.row_end, 0);
  const int64_t cols = call.matrix->shape.cols;
  DecodeCall(call, [&](int64_t begin, int64_t row, const int8_t* piece, int64_t count) {
    backends::cpu::multiply_piece(piece, begin, count, cols, call.x, call.y + row);
  });
}

int64_t rows_per_block(const CompressedView& compressed) {
  return layout_of(compressed.shape, *compressed.settings).rows_per_block;
}

int64_t scratch_bytes(const CompressedView&, int) { return kTableBytes + kPieceElements + 64; }

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "interleaved", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing,
     .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = decode},
    {.op = backends::Op::matvec, .variant = "interleaved", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing,
     .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tans
