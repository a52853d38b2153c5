// The decode kernel on GPUs for elements that are stored unchanged.
#pragma once

#include "backends/gpu/launch.h"
#include "backends/gpu/memory.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

inline constexpr int kCopyThreads = 256;

// Each thread copies a chunk, and the thread after the last whole chunk copies the rest byte by byte. Both places begin
// at multiples of a chunk.
template <typename Chunk>
ECMV_GPU_KERNEL void copy_bytes(Pointer<const std::byte> from, Pointer<std::byte> to, int64_t bytes) {
  constexpr int64_t kChunk = sizeof(Chunk);
  const int64_t chunk = block_index() * block_size() + thread_index();
  if (chunk < bytes / kChunk) {
    cast<Chunk>(to)[chunk] = load_streaming(cast<const Chunk>(from) + chunk);
  } else if (chunk == bytes / kChunk) {
    for (int64_t i = chunk * kChunk; i < bytes; ++i) to[i] = from[i];
  }
}

// `elements`: the whole matrix, row-major, in the device's memory.
struct CopyElements {
  const std::byte* elements;
  int64_t bytes;
  void operator()(void* stream, const DecodeArgs& args) const {
    const int64_t threads = (bytes + 15) / 16;
    if (threads > 0)
      launch(copy_bytes<uint4>, {(threads + kCopyThreads - 1) / kCopyThreads, kCopyThreads, 0}, stream, elements,
             args.out, bytes);
  }
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
