// Portable kernels of rans_byte_planes: a block decoded in plain loops, to memory or to scratch and multiplied there.
#include "backends/cpu/products/dense_matmul.h"
#include "backends/cpu/products/piece_product.h"
#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/rans_byte_planes/decode_block.h"
#include "codecs/rans_byte_planes/format.h"

namespace ecmv::codecs::rans_byte_planes {
namespace {

struct Decode {
  StoredMatrix matrix;
  Layout layout;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const auto [begin, end] = args.rows;
    const Sections sections(matrix);
    if (layout.blocks == 0 || begin >= end) return;
    if (sections.header.models == 0) {
      std::memcpy(args.out, matrix.elements + begin * layout.cols, (end - begin) * layout.cols);
      return;
    }
    for (int64_t row = begin; row < end; row += layout.rows_per_block)
      decode_block<false>(sections, layout, row / layout.rows_per_block,
                          reinterpret_cast<int8_t*>(args.out) + (row - begin) * layout.cols);
  }
};

// Exponents of a block in scratch, then elements.
struct DecodeFloats {
  StoredMatrix matrix;
  Layout layout;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const auto [begin, end] = args.rows;
    const Sections sections(matrix);
    if (layout.blocks == 0 || begin >= end) return;
    const int64_t first = begin * layout.cols;
    if (sections.header.models == 0)
      return join(matrix.elements + first, matrix.fractions + first, (end - begin) * layout.cols, args.out);
    int8_t* exponents = reinterpret_cast<int8_t*>(args.scratch);
    for (int64_t row = begin; row < end; row += layout.rows_per_block) {
      const int64_t block = row / layout.rows_per_block, at = row * layout.cols;
      decode_block<false>(sections, layout, block, exponents);
      join(exponents, matrix.fractions + at, layout.block_rows(block) * layout.cols, args.out + 2 * (at - first));
    }
  }
};

// Exponents of a block in scratch, then row after row of elements.
struct MultiplyFloats {
  StoredMatrix matrix;
  Layout layout;
  int batch;
  int64_t row_offset() const { return (layout.rows_per_block * layout.cols + 63) / 64 * 64; }
  void operator()(void*, const backends::MatmulArgs& args) const {
    const auto [begin, end] = args.rows;
    const Sections sections(matrix);
    const int64_t cols = layout.cols;
    std::byte* elements = args.scratch + row_offset();
    for (int64_t row = begin; row < end; row += layout.rows_per_block) {
      const int64_t rows = std::min(layout.rows_per_block, end - row);
      const int8_t* exponents = matrix.elements + row * cols;
      if (layout.blocks > 0 && sections.header.models > 0) {
        int8_t* decoded = reinterpret_cast<int8_t*>(args.scratch);
        decode_block<false>(sections, layout, row / layout.rows_per_block, decoded);
        exponents = decoded;
      }
      for (int64_t r = 0; r < rows; ++r) {
        join(exponents + r * cols, matrix.fractions + (row + r) * cols, cols, elements);
        backends::cpu::dense_matmul_scalar(datasets::ElementType::bf16, elements, 1, cols, args.x, args.x_stride, batch,
                                           args.y + row + r, args.y_stride);
      }
    }
  }
};

struct Multiply {
  StoredMatrix matrix;
  Layout layout;
  void operator()(void*, const backends::MatvecArgs& args) const {
    const auto [begin, end] = args.rows;
    const Sections sections(matrix);
    std::fill(args.y + begin, args.y + end, 0);
    if (layout.blocks == 0 || begin >= end) return;
    if (sections.header.models == 0) {
      backends::cpu::multiply_piece(matrix.elements + begin * layout.cols, 0, (end - begin) * layout.cols, layout.cols,
                                    args.x, args.y + begin);
      return;
    }
    int8_t* decoded = reinterpret_cast<int8_t*>(args.scratch);
    for (int64_t row = begin; row < end; row += layout.rows_per_block) {
      const int64_t block = row / layout.rows_per_block;
      decode_block<false>(sections, layout, block, decoded);
      backends::cpu::multiply_piece(decoded, 0, layout.block_rows(block) * layout.cols, layout.cols, args.x,
                                    args.y + row);
    }
  }
};

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  const Layout layout = layout_of(matrix.shape, matrix.type, *matrix.settings);
  if (matrix.type == datasets::ElementType::i8)
    return {Decode{matrix, layout}, {.rows_per_block = layout.rows_per_block}};
  return {DecodeFloats{matrix, layout},
          {.rows_per_block = layout.rows_per_block, .scratch_bytes = layout.rows_per_block * layout.cols}};
}
backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  const Layout layout = layout_of(matrix.shape, matrix.type, *matrix.settings);
  return {Multiply{matrix, layout},
          {.rows_per_block = layout.rows_per_block, .scratch_bytes = layout.rows_per_block * layout.cols}};
}

backends::BoundKernel bind_matmul(const backends::Policy&, backends::Layers layers, int batch, backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  const MultiplyFloats body{matrix, layout_of(matrix.shape, matrix.type, *matrix.settings), batch};
  return {body,
          {.rows_per_block = body.layout.rows_per_block, .scratch_bytes = body.row_offset() + 2 * body.layout.cols}};
}

std::string refuses_matmul(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return matrix.type == datasets::ElementType::bf16 ? "" : "The kernel multiplies elements of bf16.";
}
std::string refuses_matvec(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return matrix.type == datasets::ElementType::i8 ? "" : "The kernel multiplies int8 elements.";
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "planes", .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "planes", .refuses = refuses_matvec, .bind = bind_matvec},
    {.op = backends::Op::matmul, .variant = "planes", .refuses = refuses_matmul, .bind = bind_matmul},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::rans_byte_planes
