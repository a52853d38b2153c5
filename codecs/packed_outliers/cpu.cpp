// Portable kernels of packed_outliers. A group of 512 columns is unpacked to a buffer in the L1 cache and then stored
// or multiplied; both loops run along a strip, so compilers vectorise them. Outliers follow block by block.
#include <algorithm>
#include <array>

#include "backends/kernel.h"
#include "codecs/packed_outliers/packed.h"

namespace ecmv::codecs::packed_outliers {
namespace {

// Calls f(row, col, number of columns, their fields) for every group of the rows.
template <class F>
void for_each_group(const Packed& packed, backends::Rows rows, F f) {
  alignas(64) std::array<uint8_t, kGroupCols> fields;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
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

struct Decode {
  Packed packed;
  void operator()(void*, const backends::DecodeArgs& args) const {
    int8_t* decoded = reinterpret_cast<int8_t*>(args.out);
    for_each_group(packed, args.rows, [&](int64_t row, int64_t col, int64_t count, const uint8_t* fields) {
      int8_t* out = decoded + (row - args.rows.begin) * packed.cols + col;
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int8_t>(fields[i] + packed.lowest);
    });
    patch_outliers(packed, args.rows.begin, args.rows.end, decoded);
  }
};

struct Multiply {
  Packed packed;
  void operator()(void*, const backends::MatvecArgs& args) const {
    const int32_t offset = window_offset(packed, args.x);
    for (int64_t row = args.rows.begin; row < args.rows.end; ++row) args.y[row] = offset;
    for_each_group(packed, args.rows, [&](int64_t row, int64_t col, int64_t count, const uint8_t* fields) {
      const int8_t* x = args.x + col;
      int32_t sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += fields[i] * x[i];
      args.y[row] = static_cast<int32_t>(static_cast<uint32_t>(args.y[row]) + static_cast<uint32_t>(sum));
    });
    add_outliers(packed, args.rows.begin, args.rows.end, args.x, args.y);
  }
};

template <class Body>
backends::BoundKernel bind(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return {Body{open_packed(*layers[0].matrix)}, {.rows_per_block = kRowsPerBlock}};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "groups", .bind = bind<Decode>},
    {.op = backends::Op::matvec, .variant = "groups", .bind = bind<Multiply>},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_outliers
