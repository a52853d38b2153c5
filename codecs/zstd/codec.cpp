// zstd: the yardstick of fast general-purpose entropy decoding. On elements without repetitions a block is nothing but
// Huffman-coded literals, which libzstd decodes in four interleaved streams, two symbols a look-up. `level` 0 asks for
// exactly that: libzstd's fastest level with literal compression switched on, so that no search spoils a block.
#define ZSTD_STATIC_LINKING_ONLY  // literalCompressionMode, decoding in memory of our own
#include <zstd.h>
#include <zstd_errors.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "codecs/compressed_matrix.h"
#include "codecs/modelling/library_blocks.h"

namespace ecmv::codecs::zstd {
namespace {

// libzstd's result; throws if it ran out of memory.
size_t unless_out_of_memory(size_t result) {
  if (ZSTD_isError(result) && ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
  return result;
}

void set(ZSTD_CCtx* context, ZSTD_cParameter parameter, int value) {
  const size_t result = ZSTD_CCtx_setParameter(context, parameter, value);
  if (ZSTD_isError(result))
    throw std::runtime_error(std::string("libzstd refused a compression parameter: ") + ZSTD_getErrorName(result));
}

void compress(std::span<const std::byte> block, const Settings& settings, std::vector<std::byte>& payload) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  if (!context) throw std::bad_alloc();
  const int level = static_cast<int>(settings.integer("level"));
  set(context.get(), ZSTD_c_compressionLevel, level == 0 ? ZSTD_minCLevel() : level);
  if (level == 0) set(context.get(), ZSTD_c_literalCompressionMode, ZSTD_lcm_huffman);
  const size_t before = payload.size();
  payload.resize(before + ZSTD_compressBound(block.size()));
  const size_t bytes = unless_out_of_memory(
      ZSTD_compress2(context.get(), payload.data() + before, payload.size() - before, block.data(), block.size()));
  if (ZSTD_isError(bytes))
    throw std::runtime_error(std::string("libzstd could not compress a block: ") + ZSTD_getErrorName(bytes));
  payload.resize(before + bytes);
}

bool decompress(std::span<const std::byte> compressed, const Settings&, std::span<std::byte> out) {
  // Accepts one frame and nothing after it; ZSTD_decompress alone would accept several frames and skippable ones.
  if (ZSTD_findFrameCompressedSize(compressed.data(), compressed.size()) != compressed.size()) return false;
  return unless_out_of_memory(ZSTD_decompress(out.data(), out.size(), compressed.data(), compressed.size())) ==
         out.size();
}

}  // namespace

const Codec& codec() {
  static const Codec codec = modelling::make_library_codec(
      {
          .summary = "libzstd on blocks of rows, a yardstick",
          .source = "Zstandard, RFC 8878, through libzstd",
          .settings = {number_setting("level", "", "0: Huffman-coded literals only; 1..19: libzstd's levels", 0, 0,
                                      19)},
      },
      // ZSTD_COMPRESSBOUND is n + n / 256, and up to 64 bytes for blocks below 128 KiB.
      {.compress = compress, .decompress = decompress, .spread = 256, .constant = 64});
  return codec;
}

}  // namespace ecmv::codecs::zstd
