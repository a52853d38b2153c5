// Portable kernels of rans_byte_planes: plain loops decode a block to memory, or to scratch, where it is multiplied.
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

// Calls visit(first row, rows, their elements or exponents) for block after block; coded ones are decoded to `scratch`.
template <class Visit>
void for_each_block(const StoredMatrix& matrix, const Layout& layout, backends::Rows all, std::byte* scratch,
                    const Visit& visit) {
  const Sections sections(matrix);
  const bool coded = layout.blocks > 0 && sections.header.models > 0;
  for (int64_t row = all.begin; row < all.end; row += layout.rows_per_block) {
    auto* const decoded = reinterpret_cast<int8_t*>(scratch);
    if (coded) decode_block<false>(sections, layout, row / layout.rows_per_block, decoded);
    visit(row, std::min(layout.rows_per_block, all.end - row), coded ? decoded : matrix.elements + row * layout.cols);
  }
}

struct DecodeFloats {
  StoredMatrix matrix;
  Layout layout;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const int64_t first = args.rows.begin * layout.cols;
    for_each_block(matrix, layout, args.rows, args.scratch, [&](int64_t row, int64_t rows, const int8_t* exponents) {
      const int64_t at = row * layout.cols;
      join(exponents, matrix.fractions + at, rows * layout.cols, args.out + 2 * (at - first));
    });
  }
};

// Elements are joined row by row, after the exponents in scratch.
struct MultiplyFloats {
  StoredMatrix matrix;
  Layout layout;
  int batch;
  int64_t row_offset() const { return (layout.rows_per_block * layout.cols + 63) / 64 * 64; }
  void operator()(void*, const backends::MatmulArgs& args) const {
    const int64_t cols = layout.cols;
    std::byte* const elements = args.scratch + row_offset();
    for_each_block(matrix, layout, args.rows, args.scratch, [&](int64_t first, int64_t rows, const int8_t* exponents) {
      for (int64_t row = first; row < first + rows; ++row) {
        join(exponents + (row - first) * cols, matrix.fractions + row * cols, cols, elements);
        backends::cpu::dense_matmul_scalar(datasets::ElementType::bf16, elements, 1, cols, args.x, args.x_stride, batch,
                                           args.y + row, args.y_stride);
      }
    });
  }
};

struct Multiply {
  StoredMatrix matrix;
  Layout layout;
  void operator()(void*, const backends::MatvecArgs& args) const {
    std::fill(args.y + args.rows.begin, args.y + args.rows.end, 0);
    if (layout.blocks == 0) return;
    for_each_block(matrix, layout, args.rows, args.scratch, [&](int64_t row, int64_t rows, const int8_t* elements) {
      backends::cpu::multiply_piece(elements, 0, rows * layout.cols, layout.cols, args.x, args.y + row);
    });
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
