// Claims about element types, the content hash and the entropy.
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <random>
#include <set>

#include "datasets/content_hash.h"
#include "tests/datasets/temporary_file.h"

using namespace ecmv::datasets;
using Catch::Matchers::WithinAbs;

namespace {

std::vector<std::byte> counting_bytes(size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = std::byte(i * 37 + 11);
  return bytes;
}

uint64_t hash_of(std::span<const std::byte> bytes) {
  return content_hash({{1, int64_t(bytes.size())}, ElementType::i8, bytes});
}

}  // namespace

TEST_CASE("element types have the sizes and names of the records") {
  CHECK(element_bytes(ElementType::i8) == 1);
  CHECK(element_bytes(ElementType::u8) == 1);
  CHECK(element_bytes(ElementType::bf16) == 2);
  CHECK(element_bytes(ElementType::f16) == 2);
  CHECK(element_bytes(ElementType::f32) == 4);
  CHECK(element_type_name(ElementType::i8) == "i8");
  CHECK(element_type_name(ElementType::u8) == "u8");
  CHECK(element_type_name(ElementType::bf16) == "bf16");
  CHECK(element_type_name(ElementType::f16) == "f16");
  CHECK(element_type_name(ElementType::f32) == "f32");
  CHECK(element_bytes(ElementType::f8_e4m3) == 1);
  CHECK(element_bytes(ElementType::i16) == 2);
  CHECK(element_bytes(ElementType::u32) == 4);
  CHECK(element_bytes(ElementType::f64) == 8);
  CHECK(element_bytes(ElementType::u64) == 8);
  CHECK(element_type_name(ElementType::f64) == "f64");
  CHECK(element_type_name(ElementType::i16) == "i16");
  CHECK(element_type_name(ElementType::u64) == "u64");
  CHECK(element_type_name(ElementType::f8_e5m2) == "f8_e5m2");
  CHECK(element_type_name(ElementType::f8_e4m3) == "f8_e4m3");
}

TEST_CASE("the content hash never changes") {
  CHECK(hash_of({}) == 0x3CDE2D304DF37E04);
  CHECK(hash_of(counting_bytes(1)) == 0xF9AA247DE0312195);
  CHECK(hash_of(counting_bytes(8)) == 0x224D3324092C01AE);
  CHECK(hash_of(counting_bytes(31)) == 0x25F98E0824D2141F);
  CHECK(hash_of(counting_bytes(1000)) == 0x99490A7FB8B41F97);
}

TEST_CASE("the content hash of pieces is that of the whole") {
  for (const size_t size : {0, 1, 31, 32, 77, 1000}) {
    const auto bytes = counting_bytes(size);
    for (const size_t piece : {32, 96, 1024}) {
      ContentHash hash(ElementType::i8, {1, int64_t(size)});
      for (size_t at = 0; at < size; at += piece) hash.add(std::span(bytes).subspan(at, std::min(piece, size - at)));
      CHECK(hash.value() == hash_of(bytes));
    }
  }
}

TEST_CASE("the content hash sees type, shape, length and every bit") {
  const auto bytes = counting_bytes(77);
  std::set<uint64_t> hashes{hash_of(bytes), content_hash({{77, 1}, ElementType::i8, bytes}),
                            content_hash({{7, 11}, ElementType::i8, bytes}),
                            content_hash({{1, 77}, ElementType::u8, bytes})};
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= std::byte(1 << bit % 8);
    hashes.insert(hash_of(changed));
  }
  CHECK(hashes.size() == 4 + 8 * bytes.size());
}

TEST_CASE("two flipped sign bits do not cancel in the content hash") {
  const auto bytes = counting_bytes(256);
  std::set<uint64_t> hashes{hash_of(bytes)};
  for (size_t i = 0; i < 256; ++i) {
    for (size_t j = 0; j < i; ++j) {
      auto changed = bytes;
      changed[i] ^= std::byte{0x80};
      changed[j] ^= std::byte{0x80};
      hashes.insert(hash_of(changed));
    }
  }
  CHECK(hashes.size() == 1 + 256 * 255 / 2);
}

TEST_CASE("the entropy of known histograms is exact") {
  const auto entropy = [](std::vector<std::byte> bytes) {
    return entropy_bits_per_element({{1, int64_t(bytes.size())}, ElementType::i8, bytes});
  };
  CHECK(entropy({}) == 0.0);
  CHECK(entropy(std::vector<std::byte>(999)) == 0.0);
  CHECK_THAT(entropy(counting_bytes(256)), WithinAbs(8.0, 1e-12));
  CHECK_THAT(entropy({std::byte{1}, std::byte{2}, std::byte{2}, std::byte{2}}), WithinAbs(0.8112781244591328, 1e-12));
  CHECK_THAT(entropy({std::byte{1}, std::byte{2}, std::byte{3}}), WithinAbs(1.584962500721156, 1e-12));
}

TEST_CASE("the entropy of two-byte elements counts whole elements, that of wider ones is unknown") {
  std::vector<std::byte> bytes = {std::byte{1}, std::byte{0}, std::byte{1}, std::byte{2},
                                  std::byte{1}, std::byte{0}, std::byte{1}, std::byte{0}};
  CHECK_THAT(entropy_bits_per_element({{1, 4}, ElementType::bf16, bytes}), WithinAbs(0.8112781244591328, 1e-12));
  CHECK_THAT(entropy_bits_per_element({{1, 4}, ElementType::i16, bytes}), WithinAbs(0.8112781244591328, 1e-12));
  CHECK(std::isnan(entropy_bits_per_element({{1, 2}, ElementType::f32, bytes})));
}
