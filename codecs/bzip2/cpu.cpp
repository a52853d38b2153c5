// Decode kernel of bzip2: calls libbz2, which takes its memory from the kernel's scratch.
#include <bzlib.h>

#include "codecs/compressed_matrix.h"
#include "codecs/modelling/library_blocks.h"

namespace ecmv::codecs::bzip2 {
namespace {

class Library {
 public:
  // libbz2 documents 100 kB plus 4 bytes for each byte of a sorted block.
  static int64_t scratch_bytes(const Settings& settings) {
    return 102400 + 4 * 100000 * settings.integer("level") + 4096;
  }
  Library(std::byte* scratch, int64_t bytes) : arena_(scratch, bytes) {}

  void decompress(std::span<const std::byte> compressed, std::span<std::byte> out) {
    arena_.reset();
    bz_stream stream = {};
    stream.bzalloc = [](void* arena, int count, int size) {
      return static_cast<modelling::ScratchArena*>(arena)->take(count, size);
    };
    stream.bzfree = [](void*, void*) {};
    stream.opaque = &arena_;
    if (BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK) return;
    stream.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(compressed.data()));
    stream.avail_in = static_cast<unsigned>(compressed.size());
    stream.next_out = reinterpret_cast<char*>(out.data());
    stream.avail_out = static_cast<unsigned>(out.size());
    BZ2_bzDecompress(&stream);
    BZ2_bzDecompressEnd(&stream);
  }

 private:
  modelling::ScratchArena arena_;
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return modelling::kLibraryKernels<Library>; }

}  // namespace ecmv::codecs::bzip2
