// Decode kernel of bzip2: libbz2 itself, with the memory that it asks for taken from the scratch.
#include <bzlib.h>

#include "codecs/modelling/library_blocks.h"

namespace ecmv::codecs::bzip2 {
namespace {

using modelling::ScratchArena;

int64_t rows_per_block(const CompressedView& view) { return modelling::library_rows_per_block(view); }

// libbz2 documents 100 kB and 4 bytes for each byte of a sorted block.
int64_t scratch_bytes(const CompressedView& view, int) { return 102400 + 4 * 100000 * view.settings->integer("level") + 4096; }

void* allocate(void* arena, int count, int size) { return static_cast<ScratchArena*>(arena)->take(count, size); }
void release(void*, void*) {}

void decode(const backends::KernelCall& call) {
  ScratchArena arena(call.scratch, scratch_bytes(*call.matrix, call.tuning));
  modelling::for_each_library_block(call, [&](std::span<const std::byte> compressed, std::span<std::byte> out) {
    arena.reset();
    bz_stream stream = {};
    stream.bzalloc = allocate;
    stream.bzfree = release;
    stream.opaque = &arena;
    if (BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK) return;
    stream.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(compressed.data()));
    stream.avail_in = static_cast<unsigned>(compressed.size());
    stream.next_out = reinterpret_cast<char*>(out.data());
    stream.avail_out = static_cast<unsigned>(out.size());
    BZ2_bzDecompress(&stream);
    BZ2_bzDecompressEnd(&stream);
  });
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "library", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = decode},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::bzip2
