// Coding pairs: a number is a code, which an entropy coder takes, and extra bits, which go raw. The code alone tells
// how many extra bits there are. Every kind of number (floats, posits, integers, runs of zeros) is one PairFormat; the
// coders know nothing of them. The idea: Liguori 2024, "From a Lossless (~1.5:1) Compression Algorithm for Llama2 7B
// Weights to Variable Precision, Variable Range, Compressed Numeric Data Types".
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codecs/codec.h"

namespace ecmv::codecs::coding_pairs {

struct Pair {
  uint64_t extra = 0;
  uint32_t code = 0;
  int bits = 0;  // of `extra`
};

// Where a decoder takes pairs from.
class PairSource {
 public:
  virtual ~PairSource() = default;
  virtual Pair next() = 0;
};

class PairFormat {
 public:
  virtual ~PairFormat() = default;
  // "", or the reason as a sentence why these elements have no pairs of this format.
  virtual std::string refuses(const datasets::MatrixView& matrix) const = 0;
  // Codes are 0 .. codes() - 1; at most 65536.
  virtual uint32_t codes(datasets::ElementType type) const = 0;
  virtual int extra_bits(uint32_t code, datasets::ElementType type) const = 0;
  // Appends the pairs of `count` elements from `first` on. They decode without any other pairs.
  virtual void append(const datasets::MatrixView& matrix, int64_t first, int64_t count,
                      std::vector<Pair>& pairs) const = 0;
  // Fills `out`, the bytes of whole elements, from the pairs that append() made of them. Throws MalformedStream for
  // pairs that append() cannot make.
  virtual void restore(PairSource& source, datasets::ElementType type, std::span<std::byte> out) const = 0;
  // The bound that the reference decode keeps; an exact one by default.
  virtual ErrorBound bound(const datasets::MatrixView&) const { return {}; }
};

// Formats with one pair an element.
class ElementFormat : public PairFormat {
 public:
  virtual Pair pair_of(uint64_t pattern, datasets::ElementType type) const = 0;
  virtual uint64_t pattern_of(const Pair& pair, datasets::ElementType type) const = 0;
  void append(const datasets::MatrixView& matrix, int64_t first, int64_t count,
              std::vector<Pair>& pairs) const override;
  void restore(PairSource& source, datasets::ElementType type, std::span<std::byte> out) const override;
};

// The bit pattern of one element, zero-extended.
inline uint64_t element_at(const datasets::MatrixView& matrix, int64_t index) {
  const auto width = static_cast<size_t>(datasets::element_bytes(matrix.type));
  uint64_t pattern = 0;
  for (size_t byte = 0; byte < width; ++byte)
    pattern |= std::to_integer<uint64_t>(matrix.elements[static_cast<size_t>(index) * width + byte]) << (8 * byte);
  return pattern;
}

// The value of an integer element; `type` is i8, u8, i16 or u16.
inline int32_t integer_of(uint64_t pattern, datasets::ElementType type) {
  return type == datasets::ElementType::i8    ? static_cast<int8_t>(pattern)
         : type == datasets::ElementType::i16 ? static_cast<int16_t>(pattern)
                                              : static_cast<int32_t>(pattern);
}

// All formats by the name of the setting `pairs`.
struct NamedFormat {
  std::string_view name;
  const PairFormat* format;
};
std::span<const NamedFormat> float_formats();    // float_pairs.cpp
std::span<const NamedFormat> posit_formats();    // posit_pairs.cpp
std::span<const NamedFormat> integer_formats();  // integer_pairs.cpp
std::span<const NamedFormat> sparse_formats();   // sparse_pairs.cpp
std::vector<NamedFormat> all_formats();
const PairFormat& find_format(std::string_view name);  // throws std::logic_error: names were checked as settings

}  // namespace ecmv::codecs::coding_pairs
