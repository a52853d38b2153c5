// Portable kernels of packed_ternary: loops along a strip, which compilers vectorise.
#include <algorithm>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/packed_ternary/format.h"

namespace ecmv::codecs::packed_ternary {
namespace {

struct Bound {
  const uint8_t* codes;
  int64_t cols;
};

// Calls f(first column, number of columns that exist, their digits) for all strips of a row.
template <typename F>
void for_each_strip(const Bound& matrix, int64_t row, F f) {
  for (int64_t group = 0; group < column_groups(matrix.cols); ++group) {
    const uint8_t* const bytes = matrix.codes + row_offset(row, group, matrix.cols);
    for (int strip = 0; strip < kDigits; ++strip) {
      const int64_t first = group * kGroupCols + strip * kStripCols;
      uint8_t digits[kStripCols];
      for (int64_t j = 0; j < kStripCols; ++j)
        digits[j] = static_cast<uint8_t>(leading_digits(bytes[j], strip) -
                                         (strip == 0 ? 0 : 3 * leading_digits(bytes[j], std::max(0, strip - 1))));
      f(first, std::clamp<int64_t>(matrix.cols - first, 0, kStripCols), digits);
    }
  }
}

struct Decode : Bound {
  void operator()(void*, const backends::DecodeArgs& args) const {
    for (int64_t row = args.rows.begin; row < args.rows.end; ++row) {
      int8_t* const out = reinterpret_cast<int8_t*>(args.out) + (row - args.rows.begin) * cols;
      for_each_strip(*this, row, [&](int64_t first, int64_t count, const uint8_t* digits) {
        for (int64_t j = 0; j < count; ++j) out[first + j] = static_cast<int8_t>(digits[j] - 1);
      });
    }
  }
};

struct Multiply : Bound {
  void operator()(void*, const backends::MatvecArgs& args) const {
    for (int64_t row = args.rows.begin; row < args.rows.end; ++row) {
      int32_t sum = 0;
      for_each_strip(*this, row, [&](int64_t first, int64_t count, const uint8_t* digits) {
        for (int64_t j = 0; j < count; ++j) sum += (digits[j] - 1) * args.x[first + j];
      });
      args.y[row] = sum;
    }
  }
};

template <class Body>
backends::BoundKernel bind(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  return {Body{{codes_of(matrix), matrix.shape.cols}}, {.rows_per_block = kRowsOfBlock}};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "strips", .bind = bind<Decode>},
    {.op = backends::Op::matvec, .variant = "strips", .bind = bind<Multiply>},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_ternary
