// Element types, content hash and order-0 entropy of a matrix: the parts of matrix.h that need code. All are plain
// functions of the bytes, equal on every platform. Records name data by the hash, so its definition below may never
// change.
#include "datasets/matrix.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "datasets/content_hash.h"
#include "datasets/source.h"

namespace ecmv::datasets {

int64_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::i8:
    case ElementType::u8:
    case ElementType::f8_e5m2:
    case ElementType::f8_e4m3: return 1;
    case ElementType::bf16:
    case ElementType::f16:
    case ElementType::i16:
    case ElementType::u16: return 2;
    case ElementType::f32:
    case ElementType::i32:
    case ElementType::u32: return 4;
    case ElementType::f64:
    case ElementType::i64:
    case ElementType::u64: return 8;
  }
  throw DatasetError("The element type " + std::to_string(int(type)) + " does not exist.");
}

std::string_view element_type_name(ElementType type) {
  static constexpr std::array<std::string_view, 14> kNames = {"i8",  "u8",  "bf16", "f16", "f32", "f64",     "i16",
                                                              "u16", "i32", "u32",  "i64", "u64", "f8_e5m2", "f8_e4m3"};
  if (size_t(type) < kNames.size()) return kNames[size_t(type)];
  throw DatasetError("The element type " + std::to_string(int(type)) + " does not exist.");
}

namespace {

// One step: multiply the word in, rotate, multiply. The second multiplication spreads the word's highest bits: FNV-1a
// on whole words leaves a flipped sign bit in place, and two of them cancel.
constexpr uint64_t kWordMultiplier = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
uint64_t absorb(uint64_t hash, uint64_t word) { return std::rotl(hash + word * kWordMultiplier, 31) * kMultiplier; }

// The first `count` <= 8 bytes at `bytes` as a little-endian number, zero-extended.
uint64_t read_word(const std::byte* bytes, size_t count) {
  uint64_t word = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&word, bytes, count);
  } else {
    for (size_t i = 0; i < count; ++i) word |= uint64_t(bytes[i]) << (8 * i);
  }
  return word;
}

}  // namespace

// Definition, byte-exact:
//  1. h = 0xCBF29CE484222325; h = absorb(h, type); h = absorb(h, rows); h = absorb(h, cols).
//     (type: the value of the enumeration, i8 = 0, u8 = 1, bf16 = 2, ...)
//  2. lane[j] = absorb(h, j), j = 0..3. From every whole 32-byte piece of the elements, lane[j] absorbs the
//     little-endian 8-byte word j. (Four lanes: one alone is bound by the latency of the multiplication.)
//  3. h absorbs lane[0..3], then the remaining whole words, then, if 1..7 bytes remain, these zero-extended.
//  4. h ^= h >> 32; h *= kMultiplier; h ^= h >> 29; h *= kMultiplier; h ^= h >> 32.
ContentHash::ContentHash(ElementType type, Shape shape) : hash_(0xCBF29CE484222325) {
  hash_ = absorb(hash_, uint64_t(type));
  hash_ = absorb(hash_, uint64_t(shape.rows));
  hash_ = absorb(hash_, uint64_t(shape.cols));
  for (size_t j = 0; j < 4; ++j) lane_[j] = absorb(hash_, j);
}

void ContentHash::add(std::span<const std::byte> piece) {
  const std::byte* next = piece.data();
  size_t left = piece.size();
  std::array<uint64_t, 4> lane = lane_;
  for (; left >= 32; left -= 32, next += 32) {
    for (size_t j = 0; j < 4; ++j) lane[j] = absorb(lane[j], read_word(next + 8 * j, 8));
  }
  lane_ = lane;
  rest_.assign(next, next + left);
}

uint64_t ContentHash::value() const {
  uint64_t hash = hash_;
  for (const uint64_t value : lane_) hash = absorb(hash, value);
  const std::byte* next = rest_.data();
  size_t left = rest_.size();
  for (; left >= 8; left -= 8, next += 8) hash = absorb(hash, read_word(next, 8));
  if (left > 0) hash = absorb(hash, read_word(next, left));

  hash = (hash ^ (hash >> 32)) * kMultiplier;
  hash = (hash ^ (hash >> 29)) * kMultiplier;
  return hash ^ (hash >> 32);
}

uint64_t content_hash(const MatrixView& matrix) {
  ContentHash hash(matrix.type, matrix.shape);
  hash.add(matrix.elements);
  return hash.value();
}

double entropy_bits_per_element(const MatrixView& matrix) {
  const int64_t width = element_bytes(matrix.type);
  if (width > 2) return std::numeric_limits<double>::quiet_NaN();
  const size_t values = width == 1 ? 256 : 65536, n = matrix.elements.size() / size_t(width);
  // Four histograms, because with one equal neighbours would wait for each other's store.
  std::vector<int64_t> counts(4 * values);
  const std::byte* const elements = matrix.elements.data();
  if (width == 1)
    for (size_t i = 0; i < n; ++i) ++counts[i % 4 * values + read_word(elements + i, 1)];
  else  // a width that the compiler knows: 7 ns an element without
    for (size_t i = 0; i < n; ++i) ++counts[i % 4 * values + read_word(elements + 2 * i, 2)];
  double bits = 0;
  for (size_t value = 0; value < values; ++value) {
    const int64_t count =
        counts[value] + counts[values + value] + counts[2 * values + value] + counts[3 * values + value];
    if (count > 0) bits += double(count) * std::log2(double(n) / double(count));
  }
  return n == 0 ? 0.0 : bits / double(n);
}

}  // namespace ecmv::datasets
