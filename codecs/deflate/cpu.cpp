// Decode kernel of deflate: calls zlib, which takes its memory from the kernel's scratch.
#define ZLIB_CONST
#include <zlib.h>

#include "codecs/compressed_matrix.h"
#include "codecs/modelling/library_blocks.h"

namespace ecmv::codecs::deflate {
namespace {

constexpr int kRawWindowBits = -15;

class Library {
 public:
  // zlib documents 7 KiB of state and a 32 KiB window for decoding; other builds ask for somewhat more.
  static int64_t scratch_bytes(const Settings&) { return 64 * 1024; }
  Library(std::byte* scratch, int64_t bytes) : arena_(scratch, bytes) {
    stream_.zalloc = [](void* arena, unsigned count, unsigned size) {
      return static_cast<modelling::ScratchArena*>(arena)->take(count, size);
    };
    stream_.zfree = [](void*, void*) {};
    stream_.opaque = &arena_;
    ready_ = inflateInit2(&stream_, kRawWindowBits) == Z_OK;
  }
  Library(const Library&) = delete;  // zlib keeps the address of the stream
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (ready_) inflateEnd(&stream_);
  }

  void decompress(std::span<const std::byte> compressed, std::span<std::byte> out) {
    if (!ready_) return;
    inflateReset(&stream_);
    stream_.next_in = reinterpret_cast<const Bytef*>(compressed.data());
    stream_.avail_in = static_cast<uInt>(compressed.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    inflate(&stream_, Z_FINISH);
  }

 private:
  modelling::ScratchArena arena_;
  z_stream stream_ = {};
  bool ready_ = false;
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return modelling::kLibraryKernels<Library>; }

}  // namespace ecmv::codecs::deflate
