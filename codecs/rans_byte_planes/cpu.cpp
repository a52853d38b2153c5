// Portable kernels of rans_byte_planes: a block decoded in plain loops, to memory or to scratch and multiplied there.
#include "backends/cpu/piece_product.h"
#include "backends/kernel.h"
#include "codecs/rans_byte_planes/decode_block.h"
#include "codecs/rans_byte_planes/format.h"

namespace ecmv::codecs::rans_byte_planes {
namespace {

const int8_t* elements_of(const backends::KernelCall& call) {
  return reinterpret_cast<const int8_t*>(call.matrix->sections[kElements].bytes.data()) + call.row_begin * call.matrix->shape.cols;
}

void decode(const backends::KernelCall& call) {
  const Layout layout = layout_of(call.matrix->shape, *call.matrix->settings);
  const Sections sections(*call.matrix);
  if (layout.blocks == 0 || call.row_begin >= call.row_end) return;
  if (sections.header.models == 0) {
    std::memcpy(call.decoded, elements_of(call), (call.row_end - call.row_begin) * layout.cols);
    return;
  }
  for (int64_t row = call.row_begin; row < call.row_end; row += layout.rows_per_block)
    decode_block<false>(sections, layout, row / layout.rows_per_block, call.decoded + (row - call.row_begin) * layout.cols);
}

void matvec(const backends::KernelCall& call) {
  const Layout layout = layout_of(call.matrix->shape, *call.matrix->settings);
  const Sections sections(*call.matrix);
  std::fill(call.y + call.row_begin, call.y + call.row_end, 0);
  if (layout.blocks == 0 || call.row_begin >= call.row_end) return;
  if (sections.header.models == 0) {
    backends::cpu::multiply_piece(elements_of(call), 0, (call.row_end - call.row_begin) * layout.cols, layout.cols, call.x, call.y + call.row_begin);
    return;
  }
  int8_t* decoded = reinterpret_cast<int8_t*>(call.scratch);
  for (int64_t row = call.row_begin; row < call.row_end; row += layout.rows_per_block) {
    const int64_t block = row / layout.rows_per_block;
    decode_block<false>(sections, layout, block, decoded);
    backends::cpu::multiply_piece(decoded, 0, layout.block_rows(block) * layout.cols, layout.cols, call.x, call.y + row);
  }
}

int64_t rows_per_block(const CompressedView& compressed) { return layout_of(compressed.shape, *compressed.settings).rows_per_block; }

int64_t scratch_bytes(const CompressedView& compressed, int) {
  const Layout layout = layout_of(compressed.shape, *compressed.settings);
  return layout.rows_per_block * layout.cols;
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "planes", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing,
     .rows_per_block = rows_per_block, .launch = decode},
    {.op = backends::Op::matvec, .variant = "planes", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing,
     .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::rans_byte_planes
