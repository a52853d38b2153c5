// Matrices of independent blocks of whole rows, stored as a table, an index and a payload (rans, tans), in the form
// that CPU kernels are bound to: where the bytes lie, and the instantiation that the codec chose for the layout.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"

namespace ecmv::codecs {

// Layout is what settings and shape determine of the bytes; it has rows_per_block.
template <class Layout>
struct BlockStream {
  datasets::Shape shape;
  Layout layout;
  std::span<const std::byte> alphabet;  // section 0
  const uint8_t* offsets;               // section 1: u64 each
  const uint8_t* payload;               // section 2
};

template <class Layout>
BlockStream<Layout> block_stream_of(const CompressedView& matrix, const Layout& layout) {
  const auto bytes = [&](int section) {
    return reinterpret_cast<const uint8_t*>(matrix.sections[section].bytes.data());
  };
  return {matrix.shape, layout, matrix.sections[0].bytes, bytes(1), bytes(2)};
}

// Args: DecodeArgs or MatvecArgs.
template <class Layout, class Args>
using BlockRun = void (*)(const BlockStream<Layout>&, const Args&);

template <class Layout, class Args>
struct BlockBody {
  BlockStream<Layout> stream;
  BlockRun<Layout, Args> run;
  void operator()(void*, const Args& args) const { run(stream, args); }
};

template <class Args, class Layout>
backends::BoundKernel bound(const BlockStream<Layout>& stream, std::type_identity_t<BlockRun<Layout, Args>> run,
                            int64_t scratch_bytes) {
  return {BlockBody<Layout, Args>{stream, run},
          {.rows_per_block = stream.layout.rows_per_block, .scratch_bytes = scratch_bytes}};
}

}  // namespace ecmv::codecs
