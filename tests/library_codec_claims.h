// Claims that the generic conformance tests cannot make about codecs that store a library's blocks with one index
// (modelling/library_blocks.h): their size on elements without repetitions, blocks that decode by themselves in a
// scratch of the promised size, and damage that must be noticed. One claim a function; each codec's test.cpp gives its
// numbers.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codecs/modelling/library_blocks.h"
#include "codecs/registry.h"
#include "datasets/sources/discrete_sampler.h"
#include "datasets/sources/distributions.h"
#include "tests/cpu_place.h"

namespace ecmv::tests {

inline datasets::Matrix library_test_matrix(int64_t rows, int64_t cols) {
  datasets::Matrix matrix;
  matrix.shape = {rows, cols};
  matrix.elements.resize(rows * cols);
  datasets::DiscreteSampler(datasets::gaussian_table(4.0))
      .draw({7, 0, datasets::RandomStream::Purpose::matrix}, 0,
            {reinterpret_cast<int8_t*>(matrix.elements.data()), matrix.elements.size()});
  return matrix;
}

using GivenSettings = std::map<std::string, std::string>;

inline backends::CompressedMatrix encode_with(const codecs::CodecEntry& entry, const datasets::Matrix& matrix,
                                              const GivenSettings& given = {}) {
  std::vector<std::string> errors;
  return codecs::encode_matrix(entry, matrix.view(), codecs::resolve_settings(entry.codec->settings, given, errors));
}

inline std::vector<std::byte> decode_whole(const codecs::CodecEntry& entry,
                                           const backends::CompressedMatrix& compressed) {
  std::vector<std::byte> out(compressed.shape.elements());
  entry.codec->decode(compressed.view(), out);
  return out;
}

// Stored bits an element of N(0, 16), entropy 4.05 bits, lie between the two.
inline void claim_gaussian_size(const codecs::CodecEntry& entry, double least_bits, double most_bits) {
  const backends::CompressedMatrix compressed = encode_with(entry, library_test_matrix(256, 4096));
  const double bits = 8.0 * compressed.stored_bytes() / compressed.shape.elements();
  CHECK(bits > least_bits);
  CHECK(bits < most_bits);
}

inline void claim_blocks_decode_alone(const codecs::CodecEntry& entry, const std::vector<GivenSettings>& all_settings) {
  const datasets::Matrix matrix = library_test_matrix(70, 3000);
  for (const auto& settings : all_settings) {
    const backends::CompressedMatrix compressed = encode_with(entry, matrix, settings);
    REQUIRE(decode_whole(entry, compressed) == matrix.elements);
    const backends::CompressedView view = compressed.view();
    const backends::BoundKernel kernel = bind_on_cpu(entry.cpu_kernels[0], view);
    const int64_t step = kernel.facts.rows_per_block, scratch_bytes = kernel.facts.scratch_bytes;
    std::vector<std::byte> scratch(scratch_bytes + 64 + 64, std::byte{0x5a});
    void* aligned = scratch.data();
    size_t space = scratch_bytes + 64;
    REQUIRE(std::align(64, scratch_bytes, aligned, space) != nullptr);
    std::vector<int8_t> decoded(step * 3000 + 1, 0x5a);
    for (int64_t row = 0; row < 70; row += step) {
      const backends::Rows rows{row, std::min<int64_t>(70, row + step)};
      kernel.enqueue(nullptr, backends::DecodeArgs{rows, reinterpret_cast<std::byte*>(decoded.data()),
                                                   static_cast<std::byte*>(aligned)});
      const int64_t count = rows.count() * 3000;
      CHECK(std::equal(decoded.begin(), decoded.begin() + count, matrix.view().i8().begin() + row * 3000));
      CHECK(decoded.back() == 0x5a);
    }
    CHECK(std::all_of(static_cast<std::byte*>(aligned) + scratch_bytes, scratch.data() + scratch.size(),
                      [](std::byte b) { return b == std::byte{0x5a}; }));
  }
}

inline void claim_damage_is_noticed(const codecs::CodecEntry& entry) {
  const datasets::Matrix matrix = library_test_matrix(64, 500);
  const backends::CompressedMatrix good = encode_with(entry, matrix, {{"block_kib", "8"}});
  backends::CompressedMatrix cut = good, longer = good, falling = good, taller = good;
  cut.sections[codecs::modelling::kBlockPayload].bytes.pop_back();
  longer.sections[codecs::modelling::kBlockPayload].bytes.push_back(std::byte{0});
  falling.sections[codecs::modelling::kBlockOffsets].bytes[15] = std::byte{255};
  taller.shape.rows = 65;
  for (const backends::CompressedMatrix& bad : {cut, longer, falling, taller})
    CHECK_THROWS_AS(decode_whole(entry, bad), codecs::MalformedStream);
  // The whole end of the last block is gone, but the index fits.
  backends::CompressedMatrix shorter = good;
  std::vector<std::byte>&payload = shorter.sections[codecs::modelling::kBlockPayload].bytes,
  &offsets = shorter.sections[codecs::modelling::kBlockOffsets].bytes;
  payload.erase(payload.end() - 40, payload.end());
  const uint64_t end = payload.size();
  std::copy_n(reinterpret_cast<const std::byte*>(&end), 8, offsets.end() - 8);
  CHECK_THROWS_AS(decode_whole(entry, shorter), codecs::MalformedStream);
}

// All three claims; blocks are decoded alone with `settings`.
inline void claim_library_codec(std::string_view id, double least_bits, double most_bits,
                                const std::vector<GivenSettings>& settings) {
  const codecs::CodecEntry& entry = *codecs::find_codec(id);
  claim_gaussian_size(entry, least_bits, most_bits);
  claim_blocks_decode_alone(entry, settings);
  claim_damage_is_noticed(entry);
}

}  // namespace ecmv::tests
