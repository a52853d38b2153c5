// The stream of blocks that all memory compression codecs share.
#include "codecs/modelling/memory_blocks.h"
#include "codecs/compressed_matrix.h"

#include <string>

namespace ecmv::codecs::modelling {
namespace {

int64_t blocks_of(int64_t bytes, int64_t block_bytes) { return (bytes + block_bytes - 1) / block_bytes; }

bool has_flags(const Settings& settings) { return settings.text("escape") == "flag"; }

int64_t bits_of(const BlockCoder& coder, std::span<const std::byte> block) {
  BitWriter counter;
  coder.encode(block, counter);
  return counter.bit_count();
}

bool is_raw(int64_t coded_bits, size_t block_bytes) { return coded_bits > 8 * static_cast<int64_t>(block_bytes); }

void check_position(const CompressedView& view, int64_t group, int64_t position) {
  const auto stored = load<uint64_t>(view.sections[kMemoryPositions].bytes, static_cast<size_t>(8 * group));
  if (stored != static_cast<uint64_t>(position))
    throw MalformedStream("Group " + std::to_string(group) + " of the blocks begins at bit " +
                          std::to_string(position) + ", but the index says " + std::to_string(stored) + ".");
}

}  // namespace

std::vector<SettingInfo> block_settings(std::vector<int64_t> block_bytes_values, std::vector<SettingInfo> own) {
  std::vector<SettingInfo> settings = {
      value_setting("block_bytes", "B", "size of the blocks that are coded by themselves", 32,
                    std::move(block_bytes_values)),
      choice_setting(
          "escape",
          "flag: a bit a block says whether it is stored as it is, so that none grows by more; none: only the code",
          "none", {"none", "flag"}),
      number_setting("index_blocks", "blocks", "the index holds the position of the first of this many blocks", 128, 1,
                     65536)};
  for (SettingInfo& info : own) settings.push_back(std::move(info));
  return settings;
}

int64_t block_bytes(const Settings& settings) { return settings.integer("block_bytes"); }

int64_t block_count(datasets::MatrixView matrix, const Settings& settings) {
  return blocks_of(static_cast<int64_t>(matrix.elements.size()), block_bytes(settings));
}

CompressedMatrix encode_blocks(datasets::MatrixView matrix, const Settings& settings, const BlockCoder& coder,
                               std::optional<BlockTable> table) {
  const int64_t group = settings.integer("index_blocks");
  const bool flags = has_flags(settings);
  BitWriter blocks;
  std::vector<std::byte> positions;
  int64_t index = 0, filler_bits = 0;
  // The last block is filled up, and this part of its code is for bytes that do not exist.
  const int64_t size = block_bytes(settings), bytes = static_cast<int64_t>(matrix.elements.size());
  const int64_t last = blocks_of(bytes, size) - 1, filled_up = (last + 1) * size - bytes;
  for_each_block(matrix.elements, size, [&](std::span<const std::byte> block) {
    if (index++ % group == 0) append<uint64_t>(positions, static_cast<uint64_t>(blocks.bit_count()));
    const bool raw = flags && is_raw(bits_of(coder, block), block.size());
    if (flags) blocks.put(raw, 1);
    int64_t filler = raw ? 0 : coder.filler_bits(block), bits = -blocks.bit_count();
    if (raw)
      for (const std::byte byte : block) blocks.put(std::to_integer<uint64_t>(byte), 8);
    else
      coder.encode(block, blocks);
    bits += blocks.bit_count();
    if (index == last + 1) filler += (bits - filler) * filled_up / size;
    filler_bits += filler;
  });
  filler_bits += -blocks.bit_count() & 7;

  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections.push_back({"blocks", Role::payload, 64, blocks.finish(), filler_bits / 8});
  compressed.sections.push_back({"positions", Role::index, 8, std::move(positions)});
  if (table) compressed.sections.push_back({table->name, Role::table, 8, std::move(table->bytes)});
  return compressed;
}

void decode_blocks(const CompressedView& view, const BlockCoder& coder, std::span<std::byte> out, size_t sections) {
  if (view.sections.size() != sections)
    throw MalformedStream("A stream of blocks has " + std::to_string(sections) + " sections here, not " +
                          std::to_string(view.sections.size()) + ".");
  const int64_t size = block_bytes(*view.settings), count = blocks_of(static_cast<int64_t>(out.size()), size);
  const int64_t group = view.settings->integer("index_blocks");
  if (static_cast<int64_t>(view.sections[kMemoryPositions].bytes.size()) != 8 * blocks_of(count, group))
    throw MalformedStream("The index of the blocks does not fit the shape.");
  const bool flags = has_flags(*view.settings);
  BitReader in(view.sections[kMemoryBlocks].bytes);
  for (int64_t index = 0; index < count; ++index) {
    if (index % group == 0) check_position(view, index / group, in.position());
    std::array<std::byte, kLargestMemoryBlock> storage = {};
    const std::span<std::byte> block = std::span(storage).first(static_cast<size_t>(size));
    if (flags && in.read(1) == 1) {
      for (std::byte& byte : block) byte = static_cast<std::byte>(in.read(8));
    } else {
      coder.decode(in, block);
    }
    const int64_t first = index * size, bytes = std::min<int64_t>(size, static_cast<int64_t>(out.size()) - first);
    for (int64_t i = bytes; i < size; ++i)
      if (block[static_cast<size_t>(i)] != std::byte{0})
        throw MalformedStream("The last block is not filled up with zeros.");
    std::copy_n(block.begin(), bytes, out.begin() + first);
  }
  if (in.left() >= 8 || in.read(static_cast<int>(in.left())) != 0)
    throw MalformedStream("More follows the last block than zeros up to a whole byte.");
}

std::span<const std::byte> stored_table(const CompressedView& view) {
  if (view.sections.size() != kMemoryTable + 1) throw MalformedStream("The stream of blocks has no table.");
  return view.sections[kMemoryTable].bytes;
}

int64_t max_stored_block_bytes(datasets::Shape bytes, const Settings& settings, int64_t max_block_bits,
                               int64_t table_bytes) {
  const int64_t size = block_bytes(settings), count = blocks_of(bytes.elements(), size);
  const int64_t bits = has_flags(settings) ? std::min(max_block_bits, 8 * size) + 1 : max_block_bits;
  return (count * bits + 7) / 8 + 8 * blocks_of(count, settings.integer("index_blocks")) + table_bytes;
}

std::vector<BlockSizes> count_stream_bits(datasets::MatrixView matrix, const Settings& settings,
                                          const BlockCoder& coder, int64_t side_bits) {
  BlockSizes stream =
      count_bits("stream", matrix, settings, [&](std::span<const std::byte> block) { return bits_of(coder, block); });
  BlockSizes with_raw = stream;
  with_raw.accounting = "stream+raw";
  for (uint32_t& bits : with_raw.bits) bits = std::min(bits, static_cast<uint32_t>(8 * stream.block_bytes)) + 1;
  stream.side_bits = with_raw.side_bits = side_bits;
  if (has_flags(settings)) std::swap(stream, with_raw);
  return {std::move(stream), std::move(with_raw)};
}

Codec make_block_codec(Codec description, const PlainBlockCodec& blocks) {
  description.refuses = [](datasets::MatrixView, const Settings&) { return std::string(); };
  description.encode = [blocks](datasets::MatrixView matrix, const Settings& settings) {
    return encode_blocks(matrix, settings, *blocks.coder(settings));
  };
  description.decode = [blocks](const CompressedView& view, std::span<std::byte> out) {
    decode_blocks(view, *blocks.coder(*view.settings), out);
  };
  description.max_stored_bytes = [blocks](datasets::Shape bytes, const Settings& settings) {
    return max_stored_block_bytes(bytes, settings, blocks.most_block_bits(settings));
  };
  description.block_sizes = [blocks](datasets::MatrixView matrix, const Settings& settings) {
    std::vector<BlockSizes> sizes = count_stream_bits(matrix, settings, *blocks.coder(settings));
    for (const BlockAccounting& count : blocks.accountings) sizes.push_back(count(matrix, settings));
    return sizes;
  };
  return description;
}

}  // namespace ecmv::codecs::modelling
