// Shared by tests of quad_huffman: streams of codes, and every kernel that decodes them on a CPU.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format/stored.h"
#include "codecs/registry.h"
#include "tests/cpu_place.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs::quad_huffman {

using Given = std::map<std::string, std::string>;

inline const CodecEntry& quad_huffman_entry() { return *find_codec("quad_huffman"); }

inline Settings settings_of(const Given& given) {
  std::vector<std::string> errors;
  const Settings settings = resolve_settings(quad_huffman_entry().codec->settings, given, errors);
  REQUIRE(errors.empty());
  return settings;
}

// Encodes with codes, even where plain elements would take less.
inline CompressedMatrix coded(const datasets::Matrix& matrix, Given given = {}) {
  given.try_emplace("fallback", "none");
  return encode_matrix(quad_huffman_entry(), matrix.view(), settings_of(given));
}

inline std::vector<std::byte> decoded(const CompressedMatrix& compressed) {
  std::vector<std::byte> out(
      static_cast<size_t>(compressed.shape.elements() * datasets::element_bytes(compressed.type)));
  quad_huffman_entry().codec->decode(compressed.view(), out);
  return out;
}

inline double bits_of(const CompressedMatrix& compressed) {
  return 8.0 * static_cast<double>(compressed.stored_bytes()) / static_cast<double>(compressed.shape.elements());
}

// Runs every kernel that decodes on a CPU, in two calls where there are two groups of rows.
inline void check_decoders(const CompressedMatrix& compressed, const datasets::Matrix& matrix) {
  const auto [rows, cols] = matrix.shape;
  const CompressedView view = compressed.view();
  const int64_t row_bytes = cols * datasets::element_bytes(matrix.type);
  for (const backends::Kernel& kernel : quad_huffman_entry().kernels("scalar")) {
    if (!kernel.refuses(view, {}, kernel.policies[0]).empty()) continue;
    INFO(kernel.variant << " [" << rows << ", " << cols << "] " << compressed.settings.to_string());
    const backends::BoundKernel bound = tests::bind_on_cpu(kernel, view);
    CHECK(bound.facts.rows_per_block == (kernel.variant == "plain" ? 1 : open_stored(view).tile_rows()));
    std::vector<std::byte> out(matrix.elements.size() + 64, std::byte{0x5a});
    const int64_t middle = std::min<int64_t>(kLanes, rows);
    for (const backends::Rows part : {backends::Rows{0, middle}, backends::Rows{middle, rows}})
      bound.enqueue(nullptr,
                    backends::DecodeArgs{.rows = part, .out = out.data() + part.begin * row_bytes, .scratch = nullptr});
    CHECK(std::equal(matrix.elements.begin(), matrix.elements.end(), out.begin()));
    CHECK(std::all_of(out.end() - 64, out.end(), [](std::byte v) { return v == std::byte{0x5a}; }));
  }
}

}  // namespace ecmv::codecs::quad_huffman
