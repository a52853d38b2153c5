// Integers of one or two bytes as pairs.
//   integer                   the length of |q| in bits is the code, sign and the bits after the leading one are the
//                             extra bits; lossless
//   saturated3, ...4, ...6    the same with at most 3, 4 or 6 extra bits, the sign included: relative error at most
//                             2^-A
//   direct                    |q| is the code, the sign the only extra bit: the most that a code of single values can
//                             gain; lossless
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "codecs/coding_pairs/pairs.h"

namespace ecmv::codecs::coding_pairs {
namespace {

using datasets::ElementType;
using datasets::MatrixView;

bool is_signed(ElementType type) { return type == ElementType::i8 || type == ElementType::i16; }
bool is_short(ElementType type) {
  return type == ElementType::i8 || type == ElementType::i16 || type == ElementType::u8 || type == ElementType::u16;
}

std::string wants_integers(const char* format, const MatrixView& matrix) {
  if (is_short(matrix.type)) return "";
  return std::string("The pairs ") + format + " are those of integers of one or two bytes, not of " +
         std::string(datasets::element_type_name(matrix.type)) + ".";
}

uint64_t pattern_of_integer(int32_t value, ElementType type) {
  const auto bits = static_cast<uint64_t>(static_cast<uint32_t>(value));
  return datasets::element_bytes(type) == 1 ? bits & 0xFF : bits & 0xFFFF;
}

class LeadingBit final : public ElementFormat {
 public:
  std::string refuses(const MatrixView& matrix) const override { return wants_integers("integer", matrix); }
  uint32_t codes(ElementType type) const override {
    return static_cast<uint32_t>(8 * datasets::element_bytes(type)) + 1;
  }
  int extra_bits(uint32_t code, ElementType type) const override {
    return code == 0 ? 0 : static_cast<int>(code) - (is_signed(type) ? 0 : 1);
  }
  Pair pair_of(uint64_t pattern, ElementType type) const override {
    const int32_t value = integer_of(pattern, type);
    const auto magnitude = static_cast<uint32_t>(std::abs(value));
    const auto code = static_cast<uint32_t>(std::bit_width(magnitude));
    if (code == 0) return {};
    return {(value < 0 ? uint64_t{1} : 0) << (code - 1) | (magnitude - (1u << (code - 1))), code,
            extra_bits(code, type)};
  }
  uint64_t pattern_of(const Pair& pair, ElementType type) const override {
    if (pair.code == 0) return 0;
    const uint64_t leading = uint64_t{1} << (pair.code - 1);
    const auto magnitude = static_cast<int32_t>(leading | (pair.extra & (leading - 1)));
    const bool negative = is_signed(type) && (pair.extra & leading) != 0;
    return pattern_of_integer(negative ? -magnitude : magnitude, type);
  }
};

class Saturated final : public ElementFormat {
 public:
  Saturated(int most, const char* name) : most_(most), name_(name) {}
  std::string refuses(const MatrixView& matrix) const override {
    return is_signed(matrix.type) ? ""
                                  : std::string("The pairs ") + name_ + " are those of i8 and i16 elements, not of " +
                                        std::string(datasets::element_type_name(matrix.type)) + ".";
  }
  // One code more than `integer`, because rounding may carry.
  uint32_t codes(ElementType type) const override {
    return static_cast<uint32_t>(8 * datasets::element_bytes(type)) + 2;
  }
  int extra_bits(uint32_t code, ElementType) const override { return std::min(static_cast<int>(code), most_); }
  Pair pair_of(uint64_t pattern, ElementType type) const override {
    const int32_t value = integer_of(pattern, type);
    auto magnitude = static_cast<uint32_t>(std::abs(value));
    auto code = static_cast<uint32_t>(std::bit_width(magnitude));
    if (code == 0) return {};
    const int drop = std::max(0, static_cast<int>(code) - most_);
    if (drop > 0) magnitude = (magnitude + (1u << (drop - 1))) >> drop;
    if (drop > 0 && magnitude >> most_ != 0) {
      ++code;
      magnitude >>= 1;
    }
    const int bits = extra_bits(code, type);
    const uint64_t below = magnitude - (1u << (bits - 1));
    return {(value < 0 ? uint64_t{1} : 0) << (bits - 1) | below, code, bits};
  }
  uint64_t pattern_of(const Pair& pair, ElementType type) const override {
    if (pair.code == 0) return 0;
    const uint64_t leading = uint64_t{1} << (pair.bits - 1);
    const auto magnitude =
        static_cast<int32_t>((leading | (pair.extra & (leading - 1))) << (static_cast<int>(pair.code) - pair.bits));
    // 127 rounds up to 128, which int8 has with the negative sign only.
    const int32_t limit = datasets::element_bytes(type) == 1 ? 127 : 32767;
    return pattern_of_integer(
        (pair.extra & leading) != 0 ? std::max(-magnitude, -limit - 1) : std::min(magnitude, limit), type);
  }
  ErrorBound bound(const MatrixView&) const override { return {std::ldexp(1, -most_), 0}; }

 private:
  int most_;
  const char* name_;
};

class Direct final : public ElementFormat {
 public:
  std::string refuses(const MatrixView& matrix) const override { return wants_integers("direct", matrix); }
  uint32_t codes(ElementType type) const override {
    const auto values = 1u << (8 * datasets::element_bytes(type));
    return is_signed(type) ? values / 2 + 1 : values;
  }
  int extra_bits(uint32_t code, ElementType type) const override { return code != 0 && is_signed(type) ? 1 : 0; }
  Pair pair_of(uint64_t pattern, ElementType type) const override {
    const int32_t value = integer_of(pattern, type);
    const auto code = static_cast<uint32_t>(std::abs(value));
    return {value < 0 ? uint64_t{1} : 0, code, extra_bits(code, type)};
  }
  uint64_t pattern_of(const Pair& pair, ElementType type) const override {
    const auto magnitude = static_cast<int32_t>(pair.code);
    return pattern_of_integer(pair.extra != 0 ? -magnitude : magnitude, type);
  }
};

}  // namespace

std::span<const NamedFormat> integer_formats() {
  static const LeadingBit integer;
  static const Saturated three(3, "saturated3"), four(4, "saturated4"), six(6, "saturated6");
  static const Direct direct;
  static const NamedFormat formats[] = {
      {"integer", &integer}, {"saturated3", &three}, {"saturated4", &four}, {"saturated6", &six}, {"direct", &direct}};
  return formats;
}

}  // namespace ecmv::codecs::coding_pairs
