// Sizes of blocks of memory compression codecs: totals of every accounting, and the bytes on a packet link that carries
// the blocks one by one, as in the memory systems that these codecs are made for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/compressed_matrix.h"
#include "datasets/matrix.h"
#include "experiments/check/check.h"
#include "reports/record.h"

namespace ecmv::experiments {

// A link that sends packets: a header, then blocks, each after a tag that says which request it answers. No block is
// cut.
struct PacketLink {
  int64_t header_bytes = 8;
  int64_t payload_bytes = 4096;  // at most
  int64_t tag_bits = 9;
};

// Bytes of all packets that carry these blocks in this order, packed tightly; a packet ends at a whole byte. Throws
// std::invalid_argument for a block that no packet holds.
int64_t link_bytes(const PacketLink& link, std::span<const uint32_t> block_bits);

// Adds record.blocks if the codec counts its blocks. Returns "", or how the count contradicts the stored bytes.
std::string fill_blocks(reports::CaseRecord& record, const CodecChoice& choice,
                        const std::vector<datasets::Matrix>& matrices,
                        const std::vector<backends::CompressedMatrix>& layers);

}  // namespace ecmv::experiments
