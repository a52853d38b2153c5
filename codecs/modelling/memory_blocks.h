// Memory compression: a matrix, whatever its elements are, becomes blocks of 32, 64 or 128 bytes, and each block is
// coded by itself into a few bits. This is everything that such codecs have in common; each adds the code of one block.
//
//   blocks     the codes of the blocks, bit after bit, most significant bit first
//   positions  uint64 for every `index_blocks` blocks: where, in bits, the first of them begins
//   table      (some codecs) what the blocks share: counted like everything that a decoder reads
//
// With escape=flag every block begins with a bit; if it is 1 the block itself follows. The last block is filled up with
// zeros.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "codecs/codec.h"
#include "codecs/modelling/bit_io.h"
#include "codecs/modelling/bytes.h"

namespace ecmv::codecs::modelling {

// Section numbers.
inline constexpr int kMemoryBlocks = 0, kMemoryPositions = 1, kMemoryTable = 2;

inline constexpr int64_t kLargestMemoryBlock = 128;

// The code of one block. The code itself tells where it ends.
class BlockCoder {
 public:
  virtual ~BlockCoder() = default;
  virtual void encode(std::span<const std::byte> block, BitWriter& out) const = 0;
  // Fills all of `block`; throws MalformedStream for codes that encode() never writes.
  virtual void decode(BitReader& in, std::span<std::byte> block) const = 0;
  // How many bits of that code are filler: independent of the block and useless to a decoder.
  virtual int64_t filler_bits(std::span<const std::byte>) const { return 0; }
};

// A table that is stored beside the blocks.
struct BlockTable {
  std::string_view name;
  std::vector<std::byte> bytes;
};

// The settings common to all such codecs, followed by the codec's own.
std::vector<SettingInfo> block_settings(std::vector<int64_t> block_bytes_values, std::vector<SettingInfo> own = {});

int64_t block_bytes(const Settings& settings);
int64_t block_count(datasets::MatrixView matrix, const Settings& settings);

CompressedMatrix encode_blocks(datasets::MatrixView matrix, const Settings& settings, const BlockCoder& coder,
                               std::optional<BlockTable> table = {});

// Checks that the stream has `sections` sections, that blocks begin where `positions` says, and that only zeros up to a
// whole byte follow the last block.
void decode_blocks(const CompressedView& view, const BlockCoder& coder, std::span<std::byte> out, size_t sections = 2);

// The bytes of the stored table. Throws MalformedStream if the stream has none.
std::span<const std::byte> stored_table(const CompressedView& view);

// Upper bound of the stored bytes if a block takes at most `max_block_bits`. The shape is [rows, bytes of a row].
int64_t max_stored_block_bytes(datasets::Shape bytes, const Settings& settings, int64_t max_block_bits,
                               int64_t table_bytes = 0);

// The accountings `stream` (the codes) and `stream+raw` (a bit, and the code or the block, whichever is shorter). The
// first one is what encode_blocks() stores with these settings.
std::vector<BlockSizes> count_stream_bits(datasets::MatrixView matrix, const Settings& settings,
                                          const BlockCoder& coder, int64_t side_bits = 0);

// One accounting: bits_of(block) is called for the blocks in their order.
template <class BitsOf>
BlockSizes count_bits(std::string_view accounting, datasets::MatrixView matrix, const Settings& settings,
                      BitsOf bits_of);

// The same as a function of a matrix. Each call gets a fresh copy of bits_of.
using BlockAccounting = std::function<BlockSizes(datasets::MatrixView, const Settings&)>;
template <class BitsOf>
BlockAccounting accounting(std::string_view name, BitsOf bits_of) {
  return [=](datasets::MatrixView matrix, const Settings& settings) {
    return count_bits(name, matrix, settings, bits_of);
  };
}

// ---- a whole codec ----

// Describes a codec of blocks whose coder follows from the settings alone, so that nothing is stored beside the blocks.
struct PlainBlockCodec {
  std::function<std::unique_ptr<const BlockCoder>(const Settings&)> coder;
  std::function<int64_t(const Settings&)> most_block_bits;
  std::vector<BlockAccounting> accountings = {};  // after the ones of count_stream_bits()
};
Codec make_block_codec(Codec description, const PlainBlockCodec& blocks);

// The same for a BlockCoder that is constructed from the settings, or from nothing.
template <class Coder>
Codec make_block_codec(Codec description, int64_t (*most_block_bits)(const Settings&),
                       std::vector<BlockAccounting> accountings) {
  const auto coder = [](const Settings& settings) -> std::unique_ptr<const BlockCoder> {
    if constexpr (std::is_constructible_v<Coder, const Settings&>)
      return std::make_unique<Coder>(settings);
    else
      return std::make_unique<Coder>();
  };
  return make_block_codec(std::move(description), {coder, most_block_bits, std::move(accountings)});
}

// ---- words of a block (bytes.h), as numbers and fields ----

// The low `bits` (1..64) bits of `word` as a signed number.
inline int64_t sign_extend(uint64_t word, int bits) { return static_cast<int64_t>(word << (64 - bits)) >> (64 - bits); }
// Whether a number fits into `bits` (1..64) bits with its sign.
inline bool fits_signed(int64_t value, int bits) { return sign_extend(static_cast<uint64_t>(value), bits) == value; }

// Fields of up to 64 bits.
inline void put_word(BitWriter& out, uint64_t value, int bits) {
  if (bits > 32) out.put(value >> 32, bits - 32);
  out.put(value & 0xffffffff, bits > 32 ? 32 : bits);
}
inline uint64_t read_word(BitReader& in, int bits) {
  const uint64_t high = bits > 32 ? in.read(bits - 32) : 0;
  return high << 32 | in.read(bits > 32 ? 32 : bits);
}

// ---- the loop ----

// visit(block) for every block of the bytes; zeros fill the last one.
template <class Visit>
void for_each_block(std::span<const std::byte> bytes, int64_t block_bytes, Visit visit) {
  const auto size = static_cast<size_t>(block_bytes);
  for (size_t first = 0; first < bytes.size(); first += size) {
    if (bytes.size() - first >= size) {
      visit(bytes.subspan(first, size));
    } else {
      std::array<std::byte, kLargestMemoryBlock> last = {};
      std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(first), bytes.end(), last.begin());
      visit(std::span<const std::byte>(last).first(size));
    }
  }
}

template <class BitsOf>
BlockSizes count_bits(std::string_view accounting, datasets::MatrixView matrix, const Settings& settings,
                      BitsOf bits_of) {
  BlockSizes sizes{accounting, block_bytes(settings), {}, 0};
  sizes.bits.reserve(static_cast<size_t>(block_count(matrix, settings)));
  for_each_block(matrix.elements, sizes.block_bytes, [&](std::span<const std::byte> block) {
    sizes.bits.push_back(static_cast<uint32_t>(bits_of(block)));
  });
  return sizes;
}

}  // namespace ecmv::codecs::modelling
