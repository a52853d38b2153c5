// Ternary (-1, 0, 1) and binary (0, 1) int8 matrices as pairs.
//   ternary_direct  three codes, no extra bits (two codes for binary matrices)
//   ..._runs        a run of zeros and the number after it: the length of the run's length in bits is the code, its
//                   bits and the sign are extra
#include <algorithm>
#include <bit>

#include "codecs/coding_pairs/pairs.h"

namespace ecmv::codecs::coding_pairs {
namespace {

using datasets::ElementType;
using datasets::MatrixView;

constexpr int kMostRunBits = 40;  // of the length of a run: 2^40 elements

std::string refuses_values(const char* format, bool ternary, const MatrixView& matrix) {
  if (matrix.type != ElementType::i8) return std::string("The pairs ") + format + " are those of int8 elements.";
  for (const int8_t value : matrix.i8())
    if (value > 1 || value < (ternary ? -1 : 0))
      return std::string("The pairs ") + format +
             (ternary ? " have no numbers but -1, 0 and 1" : " have no numbers but 0 and 1") +
             ", and the matrix holds " + std::to_string(value) + ".";
  return "";
}

class TernaryDirect final : public ElementFormat {
 public:
  std::string refuses(const MatrixView& matrix) const override {
    return refuses_values("ternary_direct", true, matrix);
  }
  uint32_t codes(ElementType) const override { return 3; }
  int extra_bits(uint32_t, ElementType) const override { return 0; }
  Pair pair_of(uint64_t pattern, ElementType type) const override {
    return {0, static_cast<uint32_t>(integer_of(pattern, type) + 1), 0};
  }
  uint64_t pattern_of(const Pair& pair, ElementType) const override {
    return static_cast<uint8_t>(static_cast<int>(pair.code) - 1);
  }
};

class Runs final : public PairFormat {
 public:
  Runs(bool ternary, const char* name) : ternary_(ternary), name_(name) {}
  std::string refuses(const MatrixView& matrix) const override { return refuses_values(name_, ternary_, matrix); }
  uint32_t codes(ElementType) const override { return kMostRunBits + 1; }
  int extra_bits(uint32_t code, ElementType) const override { return run_bits(code) + (ternary_ ? 1 : 0); }
  void append(const MatrixView& matrix, int64_t first, int64_t count, std::vector<Pair>& pairs) const override {
    const auto values = matrix.i8().subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    uint64_t run = 0;
    for (const int8_t value : values) {
      if (value == 0) {
        ++run;
        continue;
      }
      pairs.push_back(pair_of(run, value < 0));
      run = 0;
    }
    if (run > 0) pairs.push_back(pair_of(run, false));  // and a number past the end, which the decoder leaves out
  }
  void restore(PairSource& source, ElementType, std::span<std::byte> out) const override {
    for (size_t at = 0; at < out.size();) {
      const Pair pair = source.next();
      const int bits = run_bits(pair.code);
      const uint64_t run = pair.code == 0 ? 0 : uint64_t{1} << bits | (pair.extra & ((uint64_t{1} << bits) - 1));
      if (run > out.size() - at) throw MalformedStream("A run of zeros is longer than what is left of the matrix.");
      std::fill_n(out.begin() + static_cast<ptrdiff_t>(at), run, std::byte{0});
      at += run;
      if (at < out.size()) out[at++] = static_cast<std::byte>(pair.extra >> bits != 0 ? int8_t{-1} : int8_t{1});
    }
  }

 private:
  static int run_bits(uint32_t code) { return std::max(0, static_cast<int>(code) - 1); }
  Pair pair_of(uint64_t run, bool negative) const {
    const auto code = static_cast<uint32_t>(std::bit_width(run));
    const int bits = run_bits(code);
    return {(negative ? uint64_t{1} : 0) << bits | (run & ((uint64_t{1} << bits) - 1)), code,
            extra_bits(code, ElementType::i8)};
  }

  bool ternary_;
  const char* name_;
};

}  // namespace

std::span<const NamedFormat> sparse_formats() {
  static const TernaryDirect direct;
  static const Runs ternary_runs(true, "ternary_runs"), binary_runs(false, "binary_runs");
  static const NamedFormat formats[] = {
      {"ternary_direct", &direct}, {"ternary_runs", &ternary_runs}, {"binary_runs", &binary_runs}};
  return formats;
}

}  // namespace ecmv::codecs::coding_pairs
