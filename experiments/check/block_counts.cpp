// See block_counts.h.
#include "experiments/check/block_counts.h"

#include <numeric>
#include <stdexcept>

#include <fmt/format.h>

namespace ecmv::experiments {

int64_t link_bytes(const PacketLink& link, std::span<const uint32_t> block_bits) {
  const int64_t capacity = 8 * link.payload_bytes;
  int64_t bytes = 0, filled = 0;
  for (const uint32_t block : block_bits) {
    const int64_t bits = link.tag_bits + block;
    if (bits > capacity)
      throw std::invalid_argument(
          fmt::format("A block of {} bits does not fit a packet of {} bytes.", block, link.payload_bytes));
    if (filled + bits > capacity) {
      bytes += link.header_bytes + (filled + 7) / 8;
      filled = 0;
    }
    filled += bits;
  }
  return filled == 0 ? bytes : bytes + link.header_bytes + (filled + 7) / 8;
}

std::string fill_blocks(reports::CaseRecord& record, const CodecChoice& choice,
                        const std::vector<datasets::Matrix>& matrices,
                        const std::vector<backends::CompressedMatrix>& layers) {
  if (choice.entry == nullptr || choice.entry->codec->block_sizes == nullptr) return {};
  const PacketLink link;
  for (size_t layer = 0; layer < matrices.size(); ++layer) {
    const std::vector<codecs::BlockSizes> accountings =
        choice.entry->codec->block_sizes(matrices[layer].view(), choice.settings);
    record.blocks.resize(accountings.size());
    for (size_t i = 0; i < accountings.size(); ++i) {
      const codecs::BlockSizes& sizes = accountings[i];
      const int64_t bits = std::accumulate(sizes.bits.begin(), sizes.bits.end(), int64_t{0});
      const int64_t payload = layers[layer].stored_bytes(backends::Role::payload);
      if (i == 0 && (bits + 7) / 8 != payload)
        return fmt::format("layer {}: {} counts {} bits of blocks, but {} bytes are stored", layer, sizes.accounting,
                           bits, payload);
      reports::CaseRecord::Blocks& blocks = record.blocks[i];
      blocks.accounting = sizes.accounting;
      blocks.block_bytes = sizes.block_bytes;
      blocks.blocks += static_cast<int64_t>(sizes.bits.size());
      blocks.bits += bits;
      blocks.side_bits += sizes.side_bits;
      blocks.link_bytes += link_bytes(link, sizes.bits);
      blocks.raw_link_bytes +=
          link_bytes(link, std::vector<uint32_t>(sizes.bits.size(), static_cast<uint32_t>(8 * sizes.block_bytes)));
    }
  }
  return {};
}

}  // namespace ecmv::experiments
