// Decode kernel of deflate: zlib itself, with the memory that it asks for taken from the scratch.
#define ZLIB_CONST
#include <zlib.h>

#include "codecs/modelling/library_blocks.h"

namespace ecmv::codecs::deflate {
namespace {

using modelling::ScratchArena;

constexpr int kRawWindowBits = -15;

int64_t rows_per_block(const CompressedView& view) { return modelling::library_rows_per_block(view); }

// zlib documents 7 KiB of state and a 32 KiB window for decoding; other builds of it ask for somewhat more.
int64_t scratch_bytes(const CompressedView&, int) { return 64 * 1024; }

void* allocate(void* arena, unsigned count, unsigned size) { return static_cast<ScratchArena*>(arena)->take(count, size); }
void release(void*, void*) {}

void decode(const backends::KernelCall& call) {
  ScratchArena arena(call.scratch, scratch_bytes(*call.matrix, call.tuning));
  z_stream stream = {};
  stream.zalloc = allocate;
  stream.zfree = release;
  stream.opaque = &arena;
  if (inflateInit2(&stream, kRawWindowBits) != Z_OK) return;
  modelling::for_each_library_block(call, [&](std::span<const std::byte> compressed, std::span<std::byte> out) {
    inflateReset(&stream);
    stream.next_in = reinterpret_cast<const Bytef*>(compressed.data());
    stream.avail_in = static_cast<uInt>(compressed.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    inflate(&stream, Z_FINISH);
  });
  inflateEnd(&stream);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "library", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = decode},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::deflate
