// SIMD kernels of packed_ternary; products take 16 rows at a time. Even and odd bytes become fractions in 16-bit lanes.
// Multiplied by 9, a fraction has two digits as one number above 8 bits and the rest below. A look-up among 16 bytes,
// which every instruction set has, separates the two. So five digits take 22 operations a vector of bytes, and five
// products. On two cores of a Xeon with AVX-512, one thread made 69 G elements/s; it made 42 digit by digit, and 56
// with L(s) less three times L(s - 1) as in gpu.cu.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/packed_ternary/format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/packed_ternary/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/dot-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::packed_ternary::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace cpu = backends::cpu::HWY_NAMESPACE;

using D8 = cpu::DotD8;
using DU8 = cpu::DotDU8;
using DU16 = hn::Repartition<uint16_t, D8>;
using D16 = cpu::DotD16;
using D32 = cpu::DotD32;
using V8 = hn::Vec<D8>;
using V32 = hn::Vec<D32>;

static_assert(HWY_MAX_BYTES <= kStripCols, "A vector must not be longer than a strip.");

// Prefetches into the L2 cache, as packed_outliers does.
constexpr int64_t kPrefetchBytes = 8192;

// Constants that the loops keep in registers. The compiler must not know the factors: it would replace multiplications
// by shifts and additions, which are twice as many operations.
struct Constants {
  hn::Vec<DU16> low, nine, three;
  hn::Vec<DU8> first, second;  // digits of a number below 9, in every 16 bytes

  HWY_INLINE Constants() {
    const DU16 du16;
    alignas(16) static constexpr uint8_t kFirst[16] = {0, 0, 0, 1, 1, 1, 2, 2, 2},
                                         kSecond[16] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
    int factors[2] = {9, 3};
    asm("" : "+r"(factors[0]), "+r"(factors[1]));
    low = hn::Set(du16, 0xFF);
    nine = hn::Set(du16, static_cast<uint16_t>(factors[0]));
    three = hn::Set(du16, static_cast<uint16_t>(factors[1]));
    first = hn::LoadDup128(DU8(), kFirst);
    second = hn::LoadDup128(DU8(), kSecond);
  }
};

// The fractions of even and of odd bytes.
struct Fractions {
  hn::Vec<DU16> even, odd;

  // Multiplies, and returns the part above the fractions in the bytes' order.
  HWY_INLINE hn::Vec<DU8> Times(hn::Vec<DU16> factor, const Constants& constants) {
    const DU8 du8;
    const auto upper = hn::Mul(even, factor), other = hn::Mul(odd, factor);
    even = hn::And(upper, constants.low);
    odd = hn::And(other, constants.low);
    return hn::OddEven(hn::BitCast(du8, other), hn::BitCast(du8, hn::ShiftRight<8>(upper)));
  }
};

struct Digits {
  hn::Vec<DU8> of[kDigits];  // of each strip's columns

  HWY_INLINE Digits(hn::Vec<DU8> bytes, const Constants& constants) {
    const auto words = hn::BitCast(DU16(), bytes);
    Fractions fractions{hn::And(words, constants.low), hn::ShiftRight<8>(words)};
    const auto pair = fractions.Times(constants.nine, constants), next = fractions.Times(constants.nine, constants);
    of[0] = hn::TableLookupBytes(constants.first, pair);
    of[1] = hn::TableLookupBytes(constants.second, pair);
    of[2] = hn::TableLookupBytes(constants.first, next);
    of[3] = hn::TableLookupBytes(constants.second, next);
    of[4] = fractions.Times(constants.three, constants);
  }
};

// Multiplies the digits of a vector of bytes with their columns' x, one vector a strip, and adds the products to `sum`.
HWY_INLINE V32 DotBytes(hn::Vec<DU8> bytes, const Constants& constants, const V8 (&x)[kDigits], V32 sum) {
  const D16 d16;
  const D32 d32;
  const Digits digits(bytes, constants);
  auto sums = hn::Zero(d16);
  for (int strip = 0; strip < kDigits; ++strip) {
    if constexpr (cpu::kDotIsBiased)
      sum = hn::SumOfMulQuadAccumulate(d32, digits.of[strip], x[strip], sum);
    else if constexpr (HWY_ARCH_X86)
      sums = hn::Add(sums, hn::SatWidenMulPairwiseAdd(d16, digits.of[strip], x[strip]));
    else
      sum = hn::SumOfMulQuadAccumulate(d32, hn::BitCast(D8(), digits.of[strip]), x[strip], sum);
  }
  if constexpr (HWY_ARCH_X86 && !cpu::kDotIsBiased)
    sum = hn::Add(sum, hn::WidenMulPairwiseAdd(d32, sums, hn::Set(d16, 1)));
  return sum;
}

struct Decode {
  const uint8_t* codes;
  int64_t cols;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const DU8 du8;
    const Constants constants;
    const auto one = hn::Set(du8, 1);
    alignas(64) std::array<uint8_t, kGroupCols> last;
    for (int64_t row = args.rows.begin; row < args.rows.end; ++row)
      for (int64_t group = 0; group < column_groups(cols); ++group) {
        const uint8_t* const bytes = codes + row_offset(row, group, cols);
        const int64_t first = group * kGroupCols, count = std::min(kGroupCols, cols - first);
        uint8_t* const out = reinterpret_cast<uint8_t*>(args.out) + (row - args.rows.begin) * cols + first;
        uint8_t* const to = count == kGroupCols ? out : last.data();
        for (int64_t j = 0; j < kStripCols; j += static_cast<int64_t>(hn::Lanes(du8))) {
          const Digits digits(hn::LoadU(du8, bytes + j), constants);
          for (int strip = 0; strip < kDigits; ++strip)
            hn::StoreU(hn::Sub(digits.of[strip], one), du8, to + strip * kStripCols + j);
        }
        if (count < kGroupCols) std::memcpy(out, last.data(), static_cast<size_t>(count));
      }
  }
};

struct Multiply {
  const uint8_t* codes;
  int64_t cols;
  // The 16 rows of a block share each load of a group's x.
  void operator()(void*, const backends::MatvecArgs& args) const {
    const D8 d8;
    const DU8 du8;
    const D32 d32;
    const int64_t groups = column_groups(cols), last = (groups - 1) * kGroupCols;
    alignas(64) std::array<int8_t, kGroupCols> x_last{};  // zeros past the last column
    for (int64_t col = std::max<int64_t>(0, last); col < cols; ++col)
      x_last[static_cast<size_t>(col - last)] = args.x[col];
    const Constants constants;
    const int32_t ones = cpu::SumX(args.x, cols);  // digits are weights plus 1
    for (int64_t begin = args.rows.begin; begin < args.rows.end; begin += kRowsOfBlock) {
      V32 sums[kRowsOfBlock];
      for (V32& sum : sums) sum = hn::Zero(d32);
      const uint8_t* bytes = codes + row_offset(begin, 0, cols);
      for (int64_t group = 0; group < groups; ++group, bytes += kGroupBytes) {
        const int8_t* const group_x = group + 1 == groups ? x_last.data() : args.x + group * kGroupCols;
        for (int64_t j = 0; j < kStripCols; j += static_cast<int64_t>(hn::Lanes(d8))) {
          V8 x[kDigits];
          for (int strip = 0; strip < kDigits; ++strip) x[strip] = hn::LoadU(d8, group_x + strip * kStripCols + j);
          for (int64_t row = 0; row < kRowsOfBlock; ++row) {
            const uint8_t* const at = bytes + row * kStripCols + j;
            if (j == 0) __builtin_prefetch(at + kPrefetchBytes, 0, 2);
            sums[row] = DotBytes(hn::LoadU(du8, at), constants, x, sums[row]);
          }
        }
      }
      for (int64_t row = begin; row < std::min(begin + kRowsOfBlock, args.rows.end); ++row)
        args.y[row] = static_cast<int32_t>(static_cast<uint32_t>(hn::ReduceSum(d32, sums[row - begin])) -
                                           static_cast<uint32_t>(ones));
    }
  }
};

backends::BoundKernel BindDecode(const CompressedView& matrix) {
  return {Decode{codes_of(matrix), matrix.shape.cols}, {.rows_per_block = kRowsOfBlock}};
}
backends::BoundKernel BindMatvec(const CompressedView& matrix) {
  return {Multiply{codes_of(matrix), matrix.shape.cols}, {.rows_per_block = kRowsOfBlock}};
}

}  // namespace ecmv::codecs::packed_ternary::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::packed_ternary {
namespace {

HWY_EXPORT(BindDecode);
HWY_EXPORT(BindMatvec);

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(*layers[0].matrix);
}
backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(*layers[0].matrix);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "strips", .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "strips", .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_ternary
#endif  // HWY_ONCE
