// A matrix as kernels on CPUs are bound to it, and the body that they share.
#pragma once

#include <cstdint>
#include <span>

#include "backends/kernel.h"
#include "codecs/rans/format.h"

namespace ecmv::codecs::rans {

struct Stream {
  datasets::Shape shape;
  Layout layout;
  std::span<const std::byte> alphabet;
  const uint8_t* offsets;  // u64 each
  const uint8_t* payload;
};

inline Stream stream_of(const CompressedView& matrix) {
  const auto bytes = [&](int section) {
    return reinterpret_cast<const uint8_t*>(matrix.sections[section].bytes.data());
  };
  return {matrix.shape, layout_of(matrix.shape, *matrix.settings), matrix.sections[kAlphabet].bytes,
          bytes(kBlockOffsets), bytes(kPayload)};
}

// The instantiation for a layout. Args: DecodeArgs or MatvecArgs.
template <class Args>
using Run = void (*)(const Stream&, const Args&);

template <class Args>
struct Body {
  Stream stream;
  Run<Args> run;
  void operator()(void*, const Args& args) const { run(stream, args); }
};

template <class Args>
backends::BoundKernel bound(const Stream& stream, Run<Args> run, int64_t scratch_bytes) {
  return {Body<Args>{stream, run}, {.rows_per_block = stream.layout.rows_per_block, .scratch_bytes = scratch_bytes}};
}

}  // namespace ecmv::codecs::rans
