// Portable kernels of tans; decode_steps.inc has the loop. The product decodes a piece of a block into a first-level
// buffer and multiplies it there.
#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/products/piece_product.h"
#include "backends/kernel.h"
#include "codecs/tans/format.h"
#include "codecs/tans/model.h"
#include "codecs/tans/stream.h"

namespace ecmv::codecs::tans {
namespace {

#include "codecs/tans/decode_steps.inc"

template <int kLanes, class Symbol>
void Multiply(const Stream& stream, const backends::MatvecArgs& args) {
  std::fill(args.y + args.rows.begin, args.y + args.rows.end, 0);
  const int64_t cols = stream.shape.cols;
  DecodeBlocks<kLanes, Symbol>(stream, args.rows, args.scratch,
                               [&](int64_t begin, int64_t row, const int8_t* piece, int64_t count) {
                                 backends::cpu::multiply_piece(piece, begin, count, cols, args.x, args.y + row);
                               });
}

using backends::Layers;

backends::BoundKernel bind_decode(const backends::Policy&, Layers layers, int, backends::Place&) {
  return BindDecode(stream_of(*layers[0].matrix));
}
backends::BoundKernel bind_matvec(const backends::Policy&, Layers layers, int, backends::Place&) {
  const Stream stream = stream_of(*layers[0].matrix);
  return bound<backends::MatvecArgs>(
      stream,
      ForLayout(stream.layout,
                []<int kLanes, class Symbol>() -> Run<backends::MatvecArgs> { return Multiply<kLanes, Symbol>; }),
      kScratchBytes);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "interleaved", .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "interleaved", .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tans
