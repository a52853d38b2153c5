// Portable kernels of packed_outliers: a group of 512 columns is unpacked to a buffer in the L1 cache and then stored or
// multiplied; both loops run along a strip, so compilers make vectors of them. Outliers follow block by block.
#include <algorithm>
#include <array>

#include "backends/kernel.h"
#include "codecs/packed_outliers/packed.h"

namespace ecmv::codecs::packed_outliers {
namespace {

int64_t rows_per_block(const CompressedView&) { return kRowsPerBlock; }

// Calls f(row, col, number of columns, their fields) for every group of the call's rows.
template <class F>
void for_each_group(const Packed& packed, const backends::KernelCall& call, F f) {
  alignas(64) std::array<uint8_t, kGroupCols> fields;
  for (int64_t row = call.row_begin; row < call.row_end; ++row) {
    const uint8_t* group = packed.fields + row * packed.row_bytes;
    for (int64_t col = 0; col < packed.cols; col += kGroupCols) {
      const int64_t here = std::min(packed.cols - col, kGroupCols);
      const int64_t width = here == kGroupCols ? kStripCols : tail_strip(packed.cols);
      unpack_group(packed.bits, group, width, fields.data());
      group += packed.bits * width;
      f(row, col, here, fields.data());
    }
  }
}

void decode(const backends::KernelCall& call) {
  const Packed packed = open_packed(*call.matrix);
  for_each_group(packed, call, [&](int64_t row, int64_t col, int64_t count, const uint8_t* fields) {
    int8_t* out = call.decoded + (row - call.row_begin) * packed.cols + col;
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int8_t>(fields[i] + packed.lowest);
  });
  patch_outliers(packed, call.row_begin, call.row_end, call.decoded);
}

void matvec(const backends::KernelCall& call) {
  const Packed packed = open_packed(*call.matrix);
  const int32_t offset = window_offset(packed, call.x);
  for (int64_t row = call.row_begin; row < call.row_end; ++row) call.y[row] = offset;
  for_each_group(packed, call, [&](int64_t row, int64_t col, int64_t count, const uint8_t* fields) {
    const int8_t* x = call.x + col;
    int32_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += fields[i] * x[i];
    call.y[row] = static_cast<int32_t>(static_cast<uint32_t>(call.y[row]) + static_cast<uint32_t>(sum));
  });
  add_outliers(packed, call.row_begin, call.row_end, call.x, call.y);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "groups", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block, .launch = decode},
    {.op = backends::Op::matvec, .variant = "groups", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_outliers
