// Decode kernel of zstd: libzstd itself, its decoding context placed in the scratch, so that nothing is allocated.
#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_initStaticDCtx, ZSTD_estimateDCtxSize
#include <zstd.h>

#include "codecs/modelling/library_blocks.h"

namespace ecmv::codecs::zstd {
namespace {

int64_t rows_per_block(const CompressedView& view) { return modelling::library_rows_per_block(view); }
int64_t scratch_bytes(const CompressedView&, int) { return static_cast<int64_t>(ZSTD_estimateDCtxSize()); }

void decode(const backends::KernelCall& call) {
  ZSTD_DCtx* const context = ZSTD_initStaticDCtx(call.scratch, ZSTD_estimateDCtxSize());
  modelling::for_each_library_block(call, [&](std::span<const std::byte> compressed, std::span<std::byte> out) {
    ZSTD_decompressDCtx(context, out.data(), out.size(), compressed.data(), compressed.size());
  });
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "library", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = decode},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::zstd
