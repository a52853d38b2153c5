// Claims about counted blocks: the packet link, sums over layers, and codecs whose counts contradict their streams.
#include "experiments/check/block_counts.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/experiments/test_codecs.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using experiments::link_bytes;
using experiments::PacketLink;

namespace {

// Counts blocks of 32 raw bytes: once as stored, once at half of it.
std::vector<codecs::BlockSizes> count_raw(datasets::MatrixView matrix, const backends::Settings&) {
  const std::vector<uint32_t> raw(matrix.elements.size() / 32, 256), half(matrix.elements.size() / 32, 128);
  return {{"stream", 32, raw, 0}, {"half", 32, half, 77}};
}
std::vector<codecs::BlockSizes> count_too_few(datasets::MatrixView matrix, const backends::Settings&) {
  return {{"stream", 32, std::vector<uint32_t>(matrix.elements.size() / 32, 255), 0}};
}

std::string fill(std::vector<codecs::BlockSizes> (*block_sizes)(datasets::MatrixView, const backends::Settings&),
                 reports::CaseRecord& record) {
  codecs::Codec codec = tests::make_codec();
  codec.block_sizes = block_sizes;
  const codecs::CodecEntry entry{"test", &codec, {}, {}};
  const std::vector<datasets::Matrix> matrices = {tests::gaussian_matrix({32, 64}, 4),
                                                  tests::gaussian_matrix({8, 32}, 4)};
  std::vector<backends::CompressedMatrix> layers;
  for (const datasets::Matrix& matrix : matrices) layers.push_back(tests::store(matrix.view(), {}));
  return experiments::fill_blocks(record, {&entry, {}}, matrices, layers);
}

}  // namespace

TEST_CASE("a packet holds whole blocks with their tags after its header") {
  const PacketLink link;
  CHECK(link_bytes(link, {}) == 0);
  // 1 block: 8 bytes and 9 + 3 bits in two bytes.
  CHECK(link_bytes(link, std::vector<uint32_t>{3}) == 8 + 2);
  // 265 bits a block: 123 fit into 32768 bits, in 4075 bytes.
  CHECK(link_bytes(link, std::vector<uint32_t>(123, 256)) == 8 + 4075);
  CHECK(link_bytes(link, std::vector<uint32_t>(124, 256)) == 8 + 4075 + 8 + 34);
  // An exactly full packet is one packet.
  CHECK(link_bytes(link, std::vector<uint32_t>(2048, 7)) == 8 + 4096);
  CHECK(link_bytes(link, std::vector<uint32_t>(2049, 7)) == 8 + 4096 + 8 + 2);
  CHECK_THROWS_AS(link_bytes(link, std::vector<uint32_t>{32768}), std::invalid_argument);
}

TEST_CASE("counted blocks are added up over the layers") {
  reports::CaseRecord record;
  CHECK(fill(count_raw, record) == "");
  REQUIRE(record.blocks.size() == 2);
  CHECK(record.blocks[0].accounting == "stream");
  CHECK(record.blocks[0].blocks == 64 + 8);
  CHECK(record.blocks[0].bits == 72 * 256);
  CHECK(record.blocks[0].side_bits == 0);
  CHECK(record.blocks[0].link_bytes == record.blocks[0].raw_link_bytes);
  CHECK(record.blocks[1].bits == 72 * 128);
  CHECK(record.blocks[1].side_bits == 2 * 77);
  CHECK(record.blocks[1].raw_link_bytes == record.blocks[0].link_bytes);
  // Two layers, two packets: 64 blocks of 137 bits in 1096 bytes, 8 in 137.
  CHECK(record.blocks[1].link_bytes == 8 + 1096 + 8 + 137);
}

TEST_CASE("a codec that counts other bits than it stores is found out, and one that counts none is left alone") {
  reports::CaseRecord record;
  CHECK(fill(count_too_few, record) == "layer 0: stream counts 16320 bits of blocks, but 2048 bytes are stored");
  reports::CaseRecord none;
  CHECK(fill(nullptr, none) == "");
  CHECK(none.blocks.empty());
}
