// Shared by tests of single codecs for int8 elements: elements, settings and decoding in one call each, and common
// claims: all kernels agree with the elements, wrong bits are noticed, the original's files are kept.
#pragma once

#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/read_stream.h"
#include "codecs/registry.h"
#include "datasets/files/file_bytes.h"
#include "datasets/files/matvans.h"
#include "datasets/sources/discrete_sampler.h"
#include "datasets/sources/distributions.h"
#include "tests/cpu_place.h"
#include "tests/test_matrices.h"

namespace ecmv::tests {

using Int8s = std::vector<int8_t>;
using Given = std::map<std::string, std::string>;

inline backends::Settings settings_of(const codecs::CodecEntry& entry, const Given& given) {
  std::vector<std::string> errors;
  const backends::Settings resolved = codecs::resolve_settings(entry.codec->settings, given, errors);
  REQUIRE(errors.empty());
  return resolved;
}

inline Int8s gaussian_int8(int64_t count, double sigma, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0.0, sigma);
  Int8s elements(static_cast<size_t>(count));
  for (int8_t& element : elements) element = static_cast<int8_t>(std::clamp(std::round(normal(random)), -128.0, 127.0));
  return elements;
}

inline datasets::MatrixView int8_view(const Int8s& elements, int64_t rows, int64_t cols) {
  return {{rows, cols}, datasets::ElementType::i8, std::as_bytes(std::span(elements))};
}

inline datasets::Matrix int8_matrix(int64_t rows, int64_t cols, const Int8s& elements) {
  datasets::Matrix matrix;
  matrix.shape = {rows, cols};
  matrix.elements.resize(elements.size());
  if (!elements.empty()) std::memcpy(matrix.elements.data(), elements.data(), elements.size());
  return matrix;
}

// Drawn as the data source `gaussian` draws, so the same on every platform.
inline datasets::Matrix sampled_gaussian(int64_t rows, int64_t cols, double sigma) {
  Int8s elements(rows * cols);
  datasets::DiscreteSampler(datasets::gaussian_table(sigma))
      .draw({7, 0, datasets::RandomStream::Purpose::matrix}, 0, elements);
  return int8_matrix(rows, cols, elements);
}

inline Int8s decoded_int8(const codecs::CodecEntry& entry, const backends::CompressedMatrix& compressed) {
  Int8s out(static_cast<size_t>(compressed.shape.elements()));
  entry.codec->decode(compressed.view(), std::as_writable_bytes(std::span(out)));
  return out;
}

// The reference and every kernel of the codec on every instruction set decode `elements` and multiply them, in two
// parts of the rows.
inline void claim_kernels_agree(const codecs::CodecEntry& entry, const backends::CompressedMatrix& compressed,
                                const Int8s& elements) {
  const datasets::Shape shape = compressed.shape;
  INFO(entry.id << " " << shape.rows << "x" << shape.cols << " " << compressed.settings.to_string());
  REQUIRE((decoded_int8(entry, compressed) == elements));
  auto x = hwy::AllocateAligned<int8_t>(static_cast<size_t>(shape.cols + backends::kVectorPaddingBytes));
  std::fill_n(x.get(), shape.cols + backends::kVectorPaddingBytes, int8_t{0});
  std::ranges::copy(gaussian_int8(shape.cols, 50.0, 8), x.get());
  std::vector<int32_t> product(static_cast<size_t>(shape.rows), 0);
  for (int64_t r = 0; r < shape.rows; ++r)
    for (int64_t c = 0; c < shape.cols; ++c) product[r] += elements[r * shape.cols + c] * x[c];
  const auto view = compressed.view();
  const auto check = [&](const backends::Kernel& kernel) {
    if (!kernel.refuses(view, {}, kernel.policies[0]).empty()) return;
    CAPTURE(kernel.variant);
    const backends::BoundKernel bound = bind_on_cpu(kernel, view);
    auto scratch = hwy::AllocateAligned<std::byte>(static_cast<size_t>(bound.facts.scratch_bytes));
    const int64_t block = bound.facts.rows_per_block, split = shape.rows / 2 / block * block;
    Int8s out(elements.size(), 55);
    std::vector<int32_t> y(product.size(), 123456);
    for (const backends::Rows rows : {backends::Rows{0, split}, backends::Rows{split, shape.rows}}) {
      auto* part = reinterpret_cast<std::byte*>(out.data() + rows.begin * shape.cols);
      if (kernel.op == backends::Op::decode)
        bound.enqueue(nullptr, backends::DecodeArgs{rows, part, scratch.get()});
      else
        bound.enqueue(nullptr,
                      backends::MatvecArgs{.rows = rows, .x = x.get(), .y = y.data(), .scratch = scratch.get()});
    }
    if (kernel.op == backends::Op::decode)
      REQUIRE((out == elements));
    else
      REQUIRE((y == product));
  };
  for (const backends::Kernel& kernel : entry.cpu_kernels) check(kernel);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const backends::Kernel& kernel : entry.simd_kernels) check(kernel);
  }
  hwy::SetSupportedTargetsForTest(0);
}

inline std::vector<uint64_t> section_hashes(const backends::CompressedMatrix& compressed) {
  std::vector<uint64_t> hashes;
  for (const backends::Section& section : compressed.sections)
    hashes.push_back(datasets::content_hash(
        {{1, static_cast<int64_t>(section.bytes.size())}, datasets::ElementType::u8, section.bytes}));
  return hashes;
}

// The reference throws, or at most `most_wrong` elements are wrong. (After swapped symbols of equal probability the
// states are right again, and a bit of padding changes nothing.)
inline void claim_wrong_bits_are_noticed(const codecs::CodecEntry& entry, const datasets::Matrix& matrix, int section,
                                         int64_t most_wrong) {
  backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), {});
  std::vector<std::byte>&payload = compressed.sections[section].bytes, decoded(matrix.elements.size());
  for (size_t i = 0; i < payload.size(); i += 7) {
    payload[i] ^= std::byte{0x10};
    try {
      entry.codec->decode(compressed.view(), decoded);
      CHECK(std::inner_product(decoded.begin(), decoded.end(), matrix.elements.begin(), int64_t{0}, std::plus<>(),
                               std::not_equal_to<>()) <= most_wrong);
    } catch (const codecs::MalformedStream&) {
    }
    payload[i] ^= std::byte{0x10};
  }
}

// A file of the original programs is read, written again byte for byte, and holds the elements of its uncompressed
// twin. `check_layer` gets each layer as read and the twin's.
template <class CheckLayer>
codecs::ChainFile claim_original_file(const codecs::CodecEntry& entry, const char* name, const char* twin_name,
                                      const CheckLayer& check_layer) {
  const std::filesystem::path folder = ECMV_SOURCE_DIR "/../shared/data/matvans";
  if (!std::filesystem::exists(folder / name)) SKIP("the MatVANS files are not there: " + (folder / name).string());
  const datasets::FileBytes file((folder / name).string()), twin_file((folder / twin_name).string());
  REQUIRE(entry.codec->recognises_file(file.bytes()));
  CHECK_FALSE(entry.codec->recognises_file(twin_file.bytes()));
  codecs::ChainFile chain = codecs::read_chain_file(*entry.codec, file.bytes()).chain;
  CHECK(std::ranges::equal(entry.codec->write_file(chain), file.bytes()));
  const datasets::MatvansFile twin = datasets::parse_matvans_uncompressed(twin_file.bytes());
  REQUIRE(chain.layers.size() == twin.layers.size());
  for (size_t layer = 0; layer < chain.layers.size(); ++layer) {
    CHECK(chain.layers[layer].source_hash == twin.layers[layer].content_hash);
    check_layer(chain.layers[layer], twin.layers[layer]);
  }
  return chain;
}

}  // namespace ecmv::tests
