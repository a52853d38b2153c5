// Floats as pairs: the exponent field is the code, sign and fraction are the extra bits. Sign and fraction of weights
// are nearly uniform, exponents are not: Llama2 7B uses 31 of 256 exponents, with an entropy of 2.58 bits.
//   exponent            every float type, lossless
//   fp12, fp11          bf16 with 3 or 2 bits of fraction kept: E8M3, E8M2
//   fp8_e5m2, fp8_e4m3  the 8-bit formats: lossless for their own element type, lossy for bf16
//   saliency            bf16: of each 64 elements the largest keeps all 7 bits of fraction, the others 2; the code
//                       includes the class
#include <algorithm>
#include <cmath>

#include "codecs/coding_pairs/pairs.h"
#include "datasets/numbers.h"

namespace ecmv::codecs::coding_pairs {
namespace {

using datasets::ElementType;
using datasets::MatrixView;

struct Fields {
  int exponent = 0, fraction = 0;  // bits
};

Fields fields_of(ElementType type) {
  switch (type) {
    case ElementType::bf16: return {8, 7};
    case ElementType::f16: return {5, 10};
    case ElementType::f32: return {8, 23};
    case ElementType::f64: return {11, 52};
    case ElementType::f8_e5m2: return {5, 2};
    case ElementType::f8_e4m3: return {4, 3};
    default: return {};
  }
}

std::string wants(const char* format, const char* types, const MatrixView& matrix) {
  return std::string("The pairs ") + format + " are those of " + types + ", not of " +
         std::string(datasets::element_type_name(matrix.type)) + ".";
}

uint64_t mask(int bits) { return (uint64_t{1} << bits) - 1; }

// Sign, exponent and fraction of a pattern as a pair, and back.
Pair split(uint64_t pattern, Fields fields) {
  const uint64_t sign = pattern >> (fields.exponent + fields.fraction);
  return {sign << fields.fraction | (pattern & mask(fields.fraction)),
          static_cast<uint32_t>(pattern >> fields.fraction & mask(fields.exponent)), 1 + fields.fraction};
}
uint64_t join(const Pair& pair, Fields fields) {
  const uint64_t sign = pair.extra >> fields.fraction;
  return sign << (fields.exponent + fields.fraction) | uint64_t{pair.code} << fields.fraction |
         (pair.extra & mask(fields.fraction));
}

class Exponent final : public ElementFormat {
 public:
  std::string refuses(const MatrixView& matrix) const override {
    return fields_of(matrix.type).exponent > 0 ? "" : wants("exponent", "float elements", matrix);
  }
  uint32_t codes(ElementType type) const override { return 1u << fields_of(type).exponent; }
  int extra_bits(uint32_t, ElementType type) const override { return 1 + fields_of(type).fraction; }
  Pair pair_of(uint64_t pattern, ElementType type) const override { return split(pattern, fields_of(type)); }
  uint64_t pattern_of(const Pair& pair, ElementType type) const override { return join(pair, fields_of(type)); }
};

// The 15 bits below the sign of a bf16, rounded to `kept` bits of fraction, halves to even. A carry moves into the
// exponent; numbers stay finite, infinities stay, NaN keeps a bit.
uint32_t round_magnitude(uint32_t magnitude, int kept) {
  constexpr uint32_t kInfinity = 0x7F80;
  const int drop = 7 - kept;
  if (drop == 0) return magnitude;
  if (magnitude >= kInfinity) {
    const uint32_t rounded = magnitude >> drop;
    return magnitude > kInfinity && rounded == kInfinity >> drop ? rounded | 1u << (kept - 1) : rounded;
  }
  const uint32_t rounded = (magnitude + (1u << (drop - 1)) - 1 + (magnitude >> drop & 1)) >> drop;
  return std::min(rounded, (kInfinity >> drop) - 1);
}

Pair rounded_pair(uint64_t pattern, int kept) {
  return split((pattern >> 15) << (8 + kept) | round_magnitude(static_cast<uint32_t>(pattern & 0x7FFF), kept),
               {8, kept});
}
uint64_t widened(const Pair& pair, int kept) {
  const uint64_t pattern = join(pair, {8, kept});
  return (pattern >> (8 + kept)) << 15 | (pattern & mask(8 + kept)) << (7 - kept);
}

// Half a step: relative for normal numbers, absolute for subnormal ones, whose step is 2^(-126 - kept).
ErrorBound rounding_bound(int kept) { return {std::ldexp(1, -kept - 1), std::ldexp(1, -127 - kept)}; }

class ShortFraction final : public ElementFormat {
 public:
  explicit ShortFraction(int kept) : kept_(kept) {}
  std::string refuses(const MatrixView& matrix) const override {
    return matrix.type == ElementType::bf16 ? "" : wants(kept_ == 2 ? "fp11" : "fp12", "bf16 elements", matrix);
  }
  uint32_t codes(ElementType) const override { return 256; }
  int extra_bits(uint32_t, ElementType) const override { return 1 + kept_; }
  Pair pair_of(uint64_t pattern, ElementType) const override { return rounded_pair(pattern, kept_); }
  uint64_t pattern_of(const Pair& pair, ElementType) const override { return widened(pair, kept_); }
  ErrorBound bound(const MatrixView&) const override { return rounding_bound(kept_); }

 private:
  int kept_;
};

// An 8-bit float. A bf16 element becomes the nearest one, halves to even; matrices with numbers beyond its range are
// refused, so that the bound holds.
class EightBits final : public ElementFormat {
 public:
  EightBits(ElementType type, const char* name) : type_(type), name_(name), fields_(fields_of(type)) {
    bias_ = (1 << (fields_.exponent - 1)) - 1;
    const bool e5m2 = type == ElementType::f8_e5m2;
    infinity_ = e5m2 ? 0x7C : 0x80;
    largest_ = e5m2 ? 0x7B : 0x7E;
    // From here on a number is nearer to the value after the largest.
    limit_ = std::ldexp((2 << fields_.fraction) - (e5m2 ? 0.5 : 1.5), (e5m2 ? 15 : 8) - fields_.fraction);
  }
  std::string refuses(const MatrixView& matrix) const override {
    if (matrix.type == type_) return "";
    if (matrix.type != ElementType::bf16)
      return wants(name_, (std::string(datasets::element_type_name(type_)) + " and bf16 elements").c_str(), matrix);
    for (int64_t i = 0; i < matrix.shape.elements(); ++i) {
      const double value = std::fabs(datasets::bf16_value(static_cast<uint16_t>(element_at(matrix, i))));
      if (std::isinf(value) ? infinity_ == 0x80 : value >= limit_)
        return "The element " + std::to_string(i) + " of the matrix lies beyond the range of " + name_ + ".";
    }
    return "";
  }
  uint32_t codes(ElementType) const override { return 1u << fields_.exponent; }
  int extra_bits(uint32_t, ElementType) const override { return 1 + fields_.fraction; }
  Pair pair_of(uint64_t pattern, ElementType type) const override {
    return split(type == type_ ? pattern : nearest(static_cast<uint16_t>(pattern)), fields_);
  }
  uint64_t pattern_of(const Pair& pair, ElementType type) const override {
    const uint64_t pattern = join(pair, fields_);
    if (type == type_) return pattern;
    const auto bits = static_cast<uint8_t>(pattern);
    return datasets::nearest_bf16(type_ == ElementType::f8_e5m2 ? datasets::f8_e5m2_value(bits)
                                                                : datasets::f8_e4m3_value(bits)) |
           (pattern & 0x80) << 8;
  }
  ErrorBound bound(const MatrixView& matrix) const override {
    if (matrix.type == type_) return {};
    return {std::ldexp(1, -fields_.fraction - 1), std::ldexp(1, -bias_ - fields_.fraction)};  // half of the least step
  }

 private:
  uint64_t nearest(uint16_t weight) const {
    const uint64_t sign = weight >> 15 << 7;
    const double value = std::fabs(datasets::bf16_value(weight));
    if (std::isnan(value)) return sign | 0x7F;
    if (std::isinf(value)) return sign | infinity_;
    // Counts steps of the number's exponent, or of the least exponent: exact, since a bf16 has 8 bits.
    const int exponent = value == 0 ? 1 - bias_ : std::max(1 - bias_, std::ilogb(value));
    const auto steps = static_cast<uint64_t>(std::nearbyint(std::ldexp(value, fields_.fraction - exponent)));
    // 2^fraction steps and more contain the leading one, which raises the exponent by itself.
    return sign |
           std::min<uint64_t>(largest_, (static_cast<uint64_t>(exponent + bias_ - 1) << fields_.fraction) + steps);
  }

  ElementType type_;
  const char* name_;
  Fields fields_;
  int bias_ = 0;
  uint64_t infinity_ = 0, largest_ = 0;
  double limit_ = 0;
};

class Saliency final : public PairFormat {
 public:
  std::string refuses(const MatrixView& matrix) const override {
    return matrix.type == ElementType::bf16 ? "" : wants("saliency", "bf16 elements", matrix);
  }
  uint32_t codes(ElementType) const override { return 512; }
  int extra_bits(uint32_t code, ElementType) const override { return 1 + kept(code & 1); }
  void append(const MatrixView& matrix, int64_t first, int64_t count, std::vector<Pair>& pairs) const override {
    for (int64_t group = first; group < first + count; group += kGroup) {
      const int64_t end = std::min(group + kGroup, first + count);
      int64_t largest = group;
      for (int64_t i = group; i < end; ++i)
        if ((element_at(matrix, i) & 0x7FFF) > (element_at(matrix, largest) & 0x7FFF)) largest = i;
      for (int64_t i = group; i < end; ++i) {
        const bool important = i == largest;
        Pair pair = rounded_pair(element_at(matrix, i), kept(important));
        pair.code = 2 * pair.code + (important ? 1 : 0);
        pairs.push_back(pair);
      }
    }
  }
  void restore(PairSource& source, ElementType, std::span<std::byte> out) const override {
    for (size_t at = 0; at < out.size(); at += 2) {
      Pair pair = source.next();
      const int bits = kept(pair.code & 1);
      pair.code /= 2;
      const uint64_t pattern = widened(pair, bits);
      out[at] = static_cast<std::byte>(pattern);
      out[at + 1] = static_cast<std::byte>(pattern >> 8);
    }
  }
  ErrorBound bound(const MatrixView&) const override { return rounding_bound(kept(false)); }

 private:
  static constexpr int64_t kGroup = 64;
  static int kept(bool important) { return important ? 7 : 2; }
};

}  // namespace

std::span<const NamedFormat> float_formats() {
  static const Exponent exponent;
  static const ShortFraction fp12(3), fp11(2);
  static const EightBits e5m2(ElementType::f8_e5m2, "fp8_e5m2"), e4m3(ElementType::f8_e4m3, "fp8_e4m3");
  static const Saliency saliency;
  static const NamedFormat formats[] = {{"exponent", &exponent}, {"fp12", &fp12},     {"fp11", &fp11},
                                        {"fp8_e5m2", &e5m2},     {"fp8_e4m3", &e4m3}, {"saliency", &saliency}};
  return formats;
}

}  // namespace ecmv::codecs::coding_pairs
