// deflate: the yardstick of the oldest code still in use, one Huffman stream of literals and matches, through zlib
// without its header and checksum. The strategy huffman_only looks for no matches: elements have none worth finding.
#define ZLIB_CONST
#include <zlib.h>

#include <new>
#include <stdexcept>
#include <string>

#include "codecs/compressed_matrix.h"
#include "codecs/modelling/library_blocks.h"

namespace ecmv::codecs::deflate {
namespace {

constexpr int kRawWindowBits = -15;  // raw deflate, 32 KiB window
constexpr int kMemoryLevel = 9;      // as many symbols to a Huffman table as zlib can hold

void compress(std::span<const std::byte> block, const Settings& settings, std::vector<std::byte>& payload) {
  z_stream stream = {};
  const int strategy = settings.text("strategy") == "huffman_only" ? Z_HUFFMAN_ONLY : Z_DEFAULT_STRATEGY;
  if (deflateInit2(&stream, static_cast<int>(settings.integer("level")), Z_DEFLATED, kRawWindowBits, kMemoryLevel,
                   strategy) != Z_OK)
    throw std::bad_alloc();
  const size_t before = payload.size();
  payload.resize(before + deflateBound(&stream, block.size()));
  stream.next_in = reinterpret_cast<const Bytef*>(block.data());
  stream.avail_in = static_cast<uInt>(block.size());
  stream.next_out = reinterpret_cast<Bytef*>(payload.data() + before);
  stream.avail_out = static_cast<uInt>(payload.size() - before);
  const int result = ::deflate(&stream, Z_FINISH);
  payload.resize(payload.size() - stream.avail_out);
  deflateEnd(&stream);
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  if (result != Z_STREAM_END)
    throw std::runtime_error("zlib could not compress a block (error " + std::to_string(result) + ").");
}

bool decompress(std::span<const std::byte> compressed, const Settings&, std::span<std::byte> out) {
  z_stream stream = {};
  if (inflateInit2(&stream, kRawWindowBits) != Z_OK) throw std::bad_alloc();
  stream.next_in = reinterpret_cast<const Bytef*>(compressed.data());
  stream.avail_in = static_cast<uInt>(compressed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  return result == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = modelling::make_library_codec(
      {
          .summary = "zlib's deflate on blocks of rows, a yardstick",
          .source = "DEFLATE, RFC 1951, through zlib",
          .settings = {number_setting("level", "", "zlib's effort in finding matches", 6, 1, 9),
                       choice_setting("strategy", "huffman_only looks for no matches", "huffman_only",
                                      {"default", "huffman_only"})},
      },
      // deflateBound with its largest overhead (small memory or window) is n + n / 8 + n / 64 + 5 and the wrapper; n +
      // n / 7 covers it.
      {.compress = compress, .decompress = decompress, .spread = 7, .constant = 32});
  return codec;
}

}  // namespace ecmv::codecs::deflate
