// Decode kernel of zstd: calls libzstd with its decoding context in the scratch, so nothing is allocated.
#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_initStaticDCtx, ZSTD_estimateDCtxSize
#include <zstd.h>

#include "codecs/compressed_matrix.h"
#include "codecs/modelling/library_blocks.h"

namespace ecmv::codecs::zstd {
namespace {

class Library {
 public:
  static int64_t scratch_bytes(const Settings&) { return static_cast<int64_t>(ZSTD_estimateDCtxSize()); }
  Library(std::byte* scratch, int64_t bytes) : context_(ZSTD_initStaticDCtx(scratch, static_cast<size_t>(bytes))) {}

  void decompress(std::span<const std::byte> compressed, std::span<std::byte> out) {
    ZSTD_decompressDCtx(context_, out.data(), out.size(), compressed.data(), compressed.size());
  }

 private:
  ZSTD_DCtx* context_;
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return modelling::kLibraryKernels<Library>; }

}  // namespace ecmv::codecs::zstd
