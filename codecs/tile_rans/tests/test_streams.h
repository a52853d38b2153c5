// The tests of tile_rans share this: every setting, matrices of 16 levels, and exact products with the bound that
// kernels keep.
#pragma once

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/registry.h"
#include "datasets/numbers.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs::tile_rans::test_streams {

inline const CodecEntry& entry() { return *find_codec("tile_rans"); }

inline Settings settings_of(const std::map<std::string, std::string>& given) {
  std::vector<std::string> errors;
  const Settings settings = resolve_settings(entry().codec->settings, given, errors);
  REQUIRE(errors.empty());
  return settings;
}

// Every coder with every tile and number of streams or columns.
inline std::vector<Settings> all_settings() {
  std::vector<Settings> out;
  for (const char* tile : {"64x64", "64x256", "64x512"}) {
    for (const char* streams : {"4", "8", "16", "32", "64"})
      out.push_back(settings_of({{"coder", "rans"}, {"tile", tile}, {"streams", streams}}));
    for (const char* cols : {"2", "4"})
      for (const char* bits : {"9", "10", "12"})
        out.push_back(
            settings_of({{"coder", "huffman_lanes"}, {"tile", tile}, {"symbol_cols", cols}, {"table_bits", bits}}));
    out.push_back(settings_of({{"coder", "packed"}, {"tile", tile}}));
  }
  return out;
}

// N(0, sigma^2) in 16 levels from -8.
inline datasets::Matrix gaussian16(datasets::Shape shape, double sigma = 2) {
  tests::Random random{5};
  return tests::make_matrix("gaussian16", shape, [&](int64_t) {
    return static_cast<int>(std::max(-8.0, std::min(7.0, std::nearbyint(sigma * random.normal()))));
  });
}

inline std::vector<std::byte> decoded(const CompressedMatrix& compressed) {
  std::vector<std::byte> out(
      static_cast<size_t>(compressed.shape.elements() * datasets::element_bytes(compressed.type)), std::byte{0x55});
  entry().codec->decode(compressed.view(), out);
  return out;
}

inline uint32_t word_at(const std::byte* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Tokens with elements of very different size, and Y = W X of the decoded elements with what a kernel may differ by.
struct Product {
  int batch;
  int64_t x_stride;
  hwy::AlignedVector<float> x;
  std::vector<double> y, magnitude;  // [batch, rows]: W X and sum |w| |x|
  std::vector<double> offset;        // [batch]: sum |x|

  Product(const datasets::Matrix& matrix, const std::vector<std::byte>& elements, int tokens)
      : batch(tokens), x_stride((matrix.shape.cols + 31) / 16 * 16) {
    const auto [rows, cols] = matrix.shape;
    tests::Random random{21};
    x.resize(static_cast<size_t>(batch * x_stride));
    std::vector<double> w(static_cast<size_t>(rows * cols));
    datasets::read_numbers({matrix.shape, matrix.type, elements}, 0, w);
    for (int t = 0; t < batch; ++t) {
      for (int64_t c = 0; c < cols; ++c)
        x[static_cast<size_t>(t * x_stride + c)] =
            static_cast<float>(random.normal() * std::exp2(static_cast<double>(random.next() % 12) - 3.0 * (t % 9)));
      double sum = 0;
      for (int64_t c = 0; c < cols; ++c) sum += std::fabs(x[static_cast<size_t>(t * x_stride + c)]);
      offset.push_back(sum);
      for (int64_t r = 0; r < rows; ++r) {
        double exact = 0, size = 0;
        for (int64_t c = 0; c < cols; ++c) {
          const double product =
              w[static_cast<size_t>(r * cols + c)] * static_cast<double>(x[static_cast<size_t>(t * x_stride + c)]);
          exact += product;
          size += std::fabs(product);
        }
        y.push_back(exact);
        magnitude.push_back(size);
      }
    }
  }

  // The largest error of `got`, [batch, rows], as a part of the bound.
  double worst(const float* got, const datasets::Shape& shape, const backends::ProductRounding& rounding) const {
    const double nu = static_cast<double>(shape.cols + rounding.more_roundings) * 0x1p-24,
                 g = nu / (1 - nu) + rounding.narrowing;
    double worst = 0;
    for (int t = 0; t < batch; ++t)
      for (int64_t r = 0; r < shape.rows; ++r) {
        const auto i = static_cast<size_t>(t * shape.rows + r);
        const double bound = g * (magnitude[i] + rounding.offset * offset[static_cast<size_t>(t)]),
                     error = std::fabs(got[i] - y[i]);
        worst = std::max(worst, !(error <= bound) ? 1e9 : error == 0 ? 0 : error / bound);
      }
    return worst;
  }
};

}  // namespace ecmv::codecs::tile_rans::test_streams
