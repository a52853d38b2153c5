// Claims of both layouts of the quad coder (codecs/modelling/quad_ans); each codec's test.cpp gives its shapes.
#pragma once

#include "codecs/modelling/quad_ans/quad_ans.h"
#include "tests/int8_claims.h"

namespace ecmv::tests {

// `shape` is of `queues` queues.
inline void claim_constant_matrix_takes_no_words(const codecs::CodecEntry& entry, datasets::Shape shape,
                                                 int64_t queues) {
  namespace quads = codecs::modelling;
  const backends::CompressedMatrix compressed =
      codecs::encode_matrix(entry, make_matrix("constant", shape, [](int64_t) { return -128; }).view(), {});
  const std::span<const std::byte> payload = compressed.sections[quads::kQuadCompressed].bytes;
  REQUIRE(static_cast<int64_t>(payload.size()) == queues * 512);
  CHECK(compressed.padding_bytes() == queues * 256);  // all but the states
  for (int64_t word = 0; word < queues * 128; ++word)
    CHECK(quads::quad_u32(payload, word) == (word % 4 == 3 ? 1u : 0u));
  for (int64_t queue = 0; queue < queues; ++queue)
    CHECK(quads::quad_u32(compressed.sections[quads::kQuadWarpOffsets].bytes, queue) == queue * 32);
  for (const std::byte prob : compressed.sections[quads::kQuadPpfProb].bytes) CHECK(prob == std::byte{128});
}

// `hashes` are of the sections that were compared with the original encoder's.
inline void claim_bytes_of_the_original(const codecs::CodecEntry& entry, datasets::Shape shape,
                                        const std::vector<uint64_t>& hashes) {
  const datasets::Matrix matrix =
      make_matrix("small", shape, [](int64_t i) { return static_cast<int>(i * i % 23 + i % 7) - 14; });
  CHECK(section_hashes(codecs::encode_matrix(entry, matrix.view(), {})) == hashes);
}

inline void claim_at_most_128_values(const codecs::CodecEntry& entry, datasets::Shape shape) {
  const auto matrix_of = [&](int values) {
    return make_matrix("values", shape, [=](int64_t i) { return static_cast<int>(i % values) - 64; });
  };
  const datasets::Matrix most = matrix_of(128);
  CHECK(entry.codec->refuses(most.view(), {}).empty());
  std::vector<std::byte> decoded(most.elements.size());
  entry.codec->decode(codecs::encode_matrix(entry, most.view(), {}).view(), decoded);
  CHECK(decoded == most.elements);
  CHECK(entry.codec->refuses(matrix_of(129).view(), {}).find("128 distinct values") != std::string::npos);
}

// Also checks files made from the elements alone. `other` is the file of the other layout.
inline void claim_files_of_the_original(const codecs::CodecEntry& entry, const char* name, const char* other) {
  const std::filesystem::path folder = ECMV_SOURCE_DIR "/../shared/data/matvans";
  codecs::ChainFile chain = claim_original_file(entry, name, "d256_h4_uncompressed.safetensors",
                                                [&](backends::CompressedMatrix& layer, const datasets::Matrix& twin) {
                                                  layer = codecs::encode_matrix(entry, twin.view(), {});
                                                });
  CHECK_FALSE(entry.codec->recognises_file(datasets::FileBytes((folder / other).string()).bytes()));
  CHECK(std::ranges::equal(entry.codec->write_file(chain), datasets::FileBytes((folder / name).string()).bytes()));
}

}  // namespace ecmv::tests
