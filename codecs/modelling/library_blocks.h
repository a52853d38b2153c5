// A matrix of any element type as independent blocks of whole rows, each compressed by a general-purpose library. This
// is everything that the library codecs have in common; each of them adds only its library's calls. Threads decode
// different blocks. A library sees rows of bytes: every shape below is [rows, bytes of a row].
//
//   payload  the compressed blocks, one after the other
//   offsets  uint64 a block, and one more: its first byte in the payload
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/kernel.h"
#include "codecs/codec.h"

namespace ecmv::codecs::modelling {

// Section numbers.
inline constexpr int kBlockPayload = 0, kBlockOffsets = 1;

// The longest block that every library takes in one call (bzip2 and zlib count in 32 bits).
inline constexpr int64_t kMaxBlockBytes = int64_t{1} << 30;

// Whole rows of a block: as many as fit into block_kib, at least one.
int64_t library_rows_per_block(const CompressedView& view);
datasets::Shape library_shape(const CompressedView& view);

// A library's calls and its bound: a block of n bytes takes at most n + n / spread + constant.
struct BlockLibrary {
  // Appends the compressed bytes of the block to `payload`.
  void (*compress)(std::span<const std::byte> block, const Settings&, std::vector<std::byte>& payload);
  // True if the stream gave exactly out.size() bytes and ended with its last byte.
  bool (*decompress)(std::span<const std::byte> compressed, const Settings&, std::span<std::byte> out);
  int64_t spread, constant;
};

// The codec that `description` describes: the setting `block_kib` follows its own settings, and all functions are
// filled in. Its decoder throws MalformedStream for damaged offsets and for blocks that do not decode.
Codec make_library_codec(Codec description, const BlockLibrary& library);

// The compressed bytes of one block. Trusts the offsets.
std::span<const std::byte> library_block(const std::byte* payload, const std::byte* offsets, int64_t block);

// Memory for a library's allocator hooks, handed out of a kernel's scratch and never taken back, because a kernel
// allocates nothing. When the scratch is used up it gives nullptr, which the library reports as lack of memory.
class ScratchArena {
 public:
  ScratchArena(std::byte* begin, int64_t bytes) : begin_(begin), left_(bytes), bytes_(bytes) {}
  void* take(uint64_t count, uint64_t size) {
    const uint64_t bytes = (count * size + 63) / 64 * 64;
    if (bytes > static_cast<uint64_t>(left_)) return nullptr;
    void* const memory = begin_ + (bytes_ - left_);
    left_ -= static_cast<int64_t>(bytes);
    return memory;
  }
  void reset() { left_ = bytes_; }

 private:
  std::byte* begin_;
  int64_t left_, bytes_;
};

// The decode kernel of a library codec. An enqueue makes one `Library` in its scratch, which decompresses block after
// block:
//   static int64_t scratch_bytes(const Settings&);
//   Library(std::byte* scratch, int64_t scratch_bytes);
//   void decompress(std::span<const std::byte> compressed, std::span<std::byte> out);  of a verified stream; allocates
//   nothing
template <class Library>
struct DecodeLibraryBlocks {
  const std::byte *payload, *offsets;
  int64_t row_bytes, block_rows, scratch_bytes;
  void operator()(void*, const backends::DecodeArgs& args) const {
    if (row_bytes == 0 || args.rows.count() <= 0) return;
    Library library(args.scratch, scratch_bytes);
    for (int64_t row = args.rows.begin; row < args.rows.end; row += block_rows) {
      const int64_t rows = std::min(block_rows, args.rows.end - row);
      library.decompress(library_block(payload, offsets, row / block_rows),
                         {args.out + (row - args.rows.begin) * row_bytes, static_cast<size_t>(rows * row_bytes)});
    }
  }
};

template <class Library>
backends::BoundKernel bind_library(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& view = *layers[0].matrix;
  const DecodeLibraryBlocks<Library> body{view.sections[kBlockPayload].bytes.data(),
                                          view.sections[kBlockOffsets].bytes.data(), library_shape(view).cols,
                                          library_rows_per_block(view), Library::scratch_bytes(*view.settings)};
  return {body, {.rows_per_block = body.block_rows, .scratch_bytes = body.scratch_bytes}};
}

template <class Library>
inline constexpr backends::Kernel kLibraryKernels[] = {
    {.op = backends::Op::decode, .variant = "library", .bind = bind_library<Library>}};

}  // namespace ecmv::codecs::modelling
