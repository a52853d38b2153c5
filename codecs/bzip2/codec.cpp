// bzip2: the yardstick of block sorting. Without repetitions it is a Huffman coder with up to six tables that switch
// every 50 symbols, and the sort costs time for nothing.
#include <bzlib.h>

#include <new>
#include <stdexcept>
#include <string>

#include "codecs/compressed_matrix.h"
#include "codecs/modelling/library_blocks.h"

namespace ecmv::codecs::bzip2 {
namespace {

// libbz2 takes char pointers but does not write through this one.
char* chars(const std::byte* bytes) { return reinterpret_cast<char*>(const_cast<std::byte*>(bytes)); }

void compress(std::span<const std::byte> block, const Settings& settings, std::vector<std::byte>& payload) {
  const size_t before = payload.size();
  // libbz2's documented bound: the input, 1 % and 600 bytes.
  payload.resize(before + block.size() + block.size() / 100 + 601);
  unsigned bytes = static_cast<unsigned>(payload.size() - before);
  const int result =
      BZ2_bzBuffToBuffCompress(chars(payload.data() + before), &bytes, chars(block.data()),
                               static_cast<unsigned>(block.size()), static_cast<int>(settings.integer("level")), 0, 0);
  if (result == BZ_MEM_ERROR) throw std::bad_alloc();
  if (result != BZ_OK)
    throw std::runtime_error("libbz2 could not compress a block (error " + std::to_string(result) + ").");
  payload.resize(before + bytes);
}

bool decompress(std::span<const std::byte> compressed, const Settings& settings, std::span<std::byte> out) {
  // Streams begin with "BZh" and the level. The library sizes its memory by that level, and a kernel's scratch is sized
  // by the setting, so both must agree.
  if (compressed.size() < 4 || compressed[3] != static_cast<std::byte>('0' + settings.integer("level"))) return false;
  bz_stream stream = {};
  if (BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK) throw std::bad_alloc();
  stream.next_in = chars(compressed.data());
  stream.avail_in = static_cast<unsigned>(compressed.size());
  stream.next_out = chars(out.data());
  stream.avail_out = static_cast<unsigned>(out.size());
  const int result = BZ2_bzDecompress(&stream);
  BZ2_bzDecompressEnd(&stream);
  if (result == BZ_MEM_ERROR) throw std::bad_alloc();
  return result == BZ_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = modelling::make_library_codec(
      {
          .summary = "libbz2 on blocks of rows, a yardstick",
          .source = "bzip2 1.0 (Seward), through libbz2",
          .settings = {number_setting("level", "100 kB", "size of the blocks that are sorted at once", 9, 1, 9)},
      },
      {.compress = compress, .decompress = decompress, .spread = 100, .constant = 601});
  return codec;
}

}  // namespace ecmv::codecs::bzip2
