// Ternary (-1, 0, 1) and binary (0, 1) int8 matrices as pairs.
//   ternary_direct  three codes, no extra bits (two codes for binary matrices)
//   ..._runs        a run of zeros and the number after it: the length of the run's length in bits is the code, its
//                   bits and the sign are extra
//   ..._groups      eight numbers: the mask of the non-zero ones is the code, first one highest; their signs are extra
//   ..._hybrid      groups, but g groups of zeros in a row are one pair: code 256 + floor(log2 g), the bits of g after
//                   its leading one are extra
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

[[noreturn]] void overrun() { throw MalformedStream("A run of zeros is longer than what is left of the matrix."); }

std::byte number(bool negative) { return static_cast<std::byte>(negative ? int8_t{-1} : int8_t{1}); }

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
      if (run > out.size() - at) overrun();
      std::fill_n(out.begin() + static_cast<ptrdiff_t>(at), run, std::byte{0});
      at += run;
      if (at < out.size()) out[at++] = number(pair.extra >> bits != 0);
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

class Groups final : public PairFormat {
 public:
  Groups(bool ternary, bool runs, const char* name) : ternary_(ternary), runs_(runs), name_(name) {}
  std::string refuses(const MatrixView& matrix) const override { return refuses_values(name_, ternary_, matrix); }
  uint32_t codes(ElementType) const override { return 256 + (runs_ ? kMostRunBits : 0); }
  int extra_bits(uint32_t code, ElementType) const override {
    return code >= 256 ? static_cast<int>(code) - 256 : ternary_ ? std::popcount(code) : 0;
  }
  void append(const MatrixView& matrix, int64_t first, int64_t count, std::vector<Pair>& pairs) const override {
    const auto values = matrix.i8().subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    uint64_t empty = 0;
    for (size_t begin = 0; begin < values.size(); begin += 8) {
      Pair pair;
      for (size_t i = begin; i < begin + 8; ++i) {
        const int8_t value = i < values.size() ? values[i] : int8_t{0};
        pair.code = pair.code << 1 | (value != 0 ? 1u : 0u);
        if (value != 0 && ternary_) pair.extra = pair.extra << 1 | (value < 0 ? 1u : 0u), ++pair.bits;
      }
      if (pair.code == 0 && runs_) {
        ++empty;
        continue;
      }
      flush(empty, pairs);
      pairs.push_back(pair);
    }
    flush(empty, pairs);
  }
  void restore(PairSource& source, ElementType, std::span<std::byte> out) const override {
    for (size_t at = 0; at < out.size();) {
      const Pair pair = source.next();
      if (pair.code >= 256) {
        const uint64_t groups = uint64_t{1} << (pair.code - 256) | pair.extra, left = (out.size() - at + 7) / 8;
        if (groups > left) overrun();
        const size_t zeros = std::min<size_t>(groups * 8, out.size() - at);
        std::fill_n(out.begin() + static_cast<ptrdiff_t>(at), zeros, std::byte{0});
        at += zeros;
        continue;
      }
      if (pair.code == 0 && runs_) throw MalformedStream("A group of zeros is not coded as a run.");
      int signs = pair.bits;
      for (int bit = 7; bit >= 0; --bit) {
        const bool present = (pair.code >> bit & 1) != 0;
        const bool negative = present && ternary_ && (pair.extra >> --signs & 1) != 0;
        if (at < out.size())
          out[at++] = present ? number(negative) : std::byte{0};
        else if (present)
          throw MalformedStream("A group of eight numbers reaches past the end of the matrix.");
      }
    }
  }

 private:
  static void flush(uint64_t& empty, std::vector<Pair>& pairs) {
    if (empty == 0) return;
    const int bits = static_cast<int>(std::bit_width(empty)) - 1;
    pairs.push_back({empty - (uint64_t{1} << bits), 256u + static_cast<uint32_t>(bits), bits});
    empty = 0;
  }

  bool ternary_, runs_;
  const char* name_;
};

}  // namespace

std::span<const NamedFormat> sparse_formats() {
  static const TernaryDirect direct;
  static const Runs ternary_runs(true, "ternary_runs"), binary_runs(false, "binary_runs");
  static const Groups ternary_groups(true, false, "ternary_groups"), ternary_hybrid(true, true, "ternary_hybrid"),
      binary_groups(false, false, "binary_groups"), binary_hybrid(false, true, "binary_hybrid");
  static const NamedFormat formats[] = {{"ternary_direct", &direct},         {"ternary_runs", &ternary_runs},
                                        {"ternary_groups", &ternary_groups}, {"ternary_hybrid", &ternary_hybrid},
                                        {"binary_runs", &binary_runs},       {"binary_groups", &binary_groups},
                                        {"binary_hybrid", &binary_hybrid}};
  return formats;
}

}  // namespace ecmv::codecs::coding_pairs
