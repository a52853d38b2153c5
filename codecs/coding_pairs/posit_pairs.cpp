// Posits (n bits, es exponent bits) as pairs. Regime and exponent bits together are an exponent E = k 2^es + e, which
// is the code; sign and fraction are the extra bits. E tells how many there are: posits near 1 have more. Zero and NaR
// have codes of their own. Posit words (u8 up to 8 bits, else u16) are lossless. A bf16 becomes the nearest posit, of
// two equally near ones the one with the even word, but never zero: numbers below the least posit become that posit.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>

#include "codecs/coding_pairs/pairs.h"
#include "datasets/numbers.h"

namespace ecmv::codecs::coding_pairs {
namespace {

using datasets::ElementType;
using datasets::MatrixView;

constexpr uint32_t kZero = 0, kNotReal = 1, kFirstExponent = 2;  // codes

class Posit final : public ElementFormat {
 public:
  Posit(int bits, int exponent_bits, const char* name) : n_(bits), es_(exponent_bits), name_(name) {}

  std::string refuses(const MatrixView& matrix) const override {
    const ElementType words = n_ <= 8 ? ElementType::u8 : ElementType::u16;
    if (matrix.type != words && matrix.type != ElementType::bf16)
      return std::string("The pairs ") + name_ + " are those of " + std::string(datasets::element_type_name(words)) +
             " words and bf16 elements, not of " + std::string(datasets::element_type_name(matrix.type)) + ".";
    for (int64_t i = 0; i < matrix.shape.elements(); ++i) {
      const uint64_t pattern = element_at(matrix, i);
      if (matrix.type == words && pattern >> n_ != 0)
        return "The element " + std::to_string(i) + " of the matrix is no word of " + name_ + ".";
      if (matrix.type == ElementType::bf16 && (pattern & 0x7FFF) == 0x7F80)
        return std::string("Infinities have no ") + name_ + ".";
    }
    return "";
  }
  uint32_t codes(ElementType) const override { return static_cast<uint32_t>(tables().extra_bits.size()); }
  int extra_bits(uint32_t code, ElementType) const override { return tables().extra_bits[code]; }
  Pair pair_of(uint64_t pattern, ElementType type) const override {
    const Tables& t = tables();
    return t.pair_of_word[type == ElementType::bf16 ? t.word_of_bf16[pattern] : pattern];
  }
  uint64_t pattern_of(const Pair& pair, ElementType type) const override {
    const uint64_t word = tables().word_of_pair[pair.code][pair.extra];
    return type == ElementType::bf16 ? datasets::nearest_bf16(tables().value_of_word[word]) : word;
  }
  // Half the widest step between posits in the matrix's range. Below the least posit the bound is that posit, above the
  // largest the part that is cut off.
  ErrorBound bound(const MatrixView& matrix) const override {
    if (matrix.type != ElementType::bf16) return {};
    double least = INFINITY, largest = 0;
    for (int64_t i = 0; i < matrix.shape.elements(); ++i) {
      const double value = std::fabs(datasets::bf16_value(static_cast<uint16_t>(element_at(matrix, i))));
      if (!(value > 0)) continue;  // zero and NaN
      least = std::min(least, value);
      largest = std::max(largest, value);
    }
    const Tables& t = tables();
    const uint32_t top = (1u << (n_ - 1)) - 1;
    ErrorBound bound;
    for (uint32_t word = 1; word < top; ++word) {
      const double low = t.value_of_word[word], high = t.value_of_word[word + 1];
      if (high > least && low < largest) bound.relative = std::max(bound.relative, (high - low) / (high + low));
    }
    bound.relative *= 1 + 0x1p-50;  // the quotient is rounded
    if (least < t.value_of_word[1]) bound.absolute = t.value_of_word[1];
    if (largest > t.value_of_word[top])
      bound.relative = std::max(bound.relative, (1 - t.value_of_word[top] / largest) * (1 + 0x1p-50));
    return bound;
  }

 private:
  struct Tables {
    std::vector<Pair> pair_of_word;
    std::vector<std::vector<uint16_t>> word_of_pair;  // by code and extra bits
    std::vector<double> value_of_word;
    std::vector<int> extra_bits;  // by code
    std::vector<uint16_t> word_of_bf16;
  };
  struct Parts {
    int exponent = 0, fraction_bits = 0;
    uint64_t fraction = 0;
    bool negative = false;
  };

  Parts parts_of(uint32_t word) const {
    Parts parts;
    parts.negative = (word >> (n_ - 1) & 1) != 0;
    if (parts.negative) word = (~word + 1) & ((1u << n_) - 1);
    const auto bit = [&](int i) { return i >= 0 ? word >> i & 1 : 0; };
    int at = n_ - 2, run = 0;
    const uint32_t first = bit(at);
    for (; at >= 0 && bit(at) == first; --at) ++run;
    --at;  // the bit that ends the run, if there is one
    int e = 0;
    for (int i = 0; i < es_; ++i, --at) e = 2 * e + static_cast<int>(bit(at));
    parts.exponent = (first != 0 ? run - 1 : -run) * (1 << es_) + e;
    parts.fraction_bits = std::max(0, at + 1);
    parts.fraction = word & ((1u << parts.fraction_bits) - 1);
    return parts;
  }

  const Tables& tables() const {
    std::call_once(once_, [this] { build(); });
    return tables_;
  }

  void build() const {
    Tables& t = tables_;
    const uint32_t words = 1u << n_, not_real = words / 2;
    std::map<int, int> fraction_bits;  // by exponent
    for (uint32_t word = 1; word < words; ++word)
      if (word != not_real) fraction_bits[parts_of(word).exponent] = parts_of(word).fraction_bits;
    std::map<int, uint32_t> code;
    t.extra_bits = {0, 0};
    for (const auto& [exponent, bits] : fraction_bits) {
      code[exponent] = kFirstExponent + static_cast<uint32_t>(code.size());
      t.extra_bits.push_back(1 + bits);
    }
    t.word_of_pair.resize(t.extra_bits.size());
    for (size_t c = 0; c < t.extra_bits.size(); ++c) t.word_of_pair[c].resize(size_t{1} << t.extra_bits[c]);
    t.pair_of_word.resize(words);
    t.value_of_word.resize(words);
    t.pair_of_word[not_real].code = kNotReal;
    t.value_of_word[not_real] = NAN;
    t.word_of_pair[kNotReal][0] = static_cast<uint16_t>(not_real);
    for (uint32_t word = 1; word < words; ++word) {
      if (word == not_real) continue;
      const Parts parts = parts_of(word);
      const Pair pair{(parts.negative ? uint64_t{1} : 0) << parts.fraction_bits | parts.fraction, code[parts.exponent],
                      1 + parts.fraction_bits};
      t.pair_of_word[word] = pair;
      t.word_of_pair[pair.code][pair.extra] = static_cast<uint16_t>(word);
      t.value_of_word[word] = std::ldexp(static_cast<double>((uint64_t{1} << parts.fraction_bits) + parts.fraction),
                                         parts.exponent - parts.fraction_bits) *
                              (parts.negative ? -1 : 1);
    }
    t.word_of_bf16.resize(65536);
    for (uint32_t bits = 0; bits < 65536; ++bits)
      t.word_of_bf16[bits] = nearest(datasets::bf16_value(static_cast<uint16_t>(bits)));
  }

  // Positive posits ascend with their words.
  uint16_t nearest(double value) const {
    const uint32_t words = 1u << n_, top = words / 2 - 1;
    if (!std::isfinite(value)) return static_cast<uint16_t>(words / 2);
    if (value == 0) return 0;
    const double magnitude = std::fabs(value);
    const auto begin = tables_.value_of_word.begin() + 1, end = begin + top;
    auto above =
        static_cast<uint32_t>(std::lower_bound(begin, end, magnitude) - begin) + 1;  // the first that is not less
    if (above > top) above = top;
    uint32_t word = above;
    if (above > 1) {
      const double up = tables_.value_of_word[above] - magnitude, down = magnitude - tables_.value_of_word[above - 1];
      if (down < up || (down == up && above % 2 == 1)) word = above - 1;
    }
    return static_cast<uint16_t>(value < 0 ? words - word : word);
  }

  int n_, es_;
  const char* name_;
  mutable std::once_flag once_;
  mutable Tables tables_;
};

}  // namespace

std::span<const NamedFormat> posit_formats() {
  static const Posit p5_3(5, 3, "posit5_3"), p6_2(6, 2, "posit6_2"), p8_0(8, 0, "posit8_0"), p8_1(8, 1, "posit8_1"),
      p8_2(8, 2, "posit8_2"), p16_1(16, 1, "posit16_1"), p16_2(16, 2, "posit16_2");
  static const NamedFormat formats[] = {{"posit5_3", &p5_3},  {"posit6_2", &p6_2}, {"posit8_0", &p8_0},
                                        {"posit8_1", &p8_1},  {"posit8_2", &p8_2}, {"posit16_1", &p16_1},
                                        {"posit16_2", &p16_2}};
  return formats;
}

}  // namespace ecmv::codecs::coding_pairs
