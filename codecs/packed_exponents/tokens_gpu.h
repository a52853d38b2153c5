// Elements of packed_exponents in products with tokens of bf16 (backends/gpu/products/token_matmul.h). A lane's 16
// bytes of three lines are 32 elements: 13 shifts and logic operations and four additions make eight of them. What
// records say is added to the sums at the end.
#pragma once

#include "backends/gpu/products/token_matmul.h"
#include "codecs/packed_exponents/format.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

inline constexpr int kGroupColumns = static_cast<int>(kGroupCols), kBlockRows = static_cast<int>(kRowsPerBlock);

struct FieldsOnGpu {
  int64_t rows, row_bytes;
  int cols;
  uint32_t lowest;  // exponents to add, in both halves of a word
  gpu::Pointer<const std::byte> fields;
  gpu::Pointer<const uint64_t> blocks;
  gpu::Pointer<const uint32_t> records;
};
inline FieldsOnGpu fields_on_gpu(const backends::CompressedView& view) {
  const auto bytes = [&](int section) { return view.sections[static_cast<size_t>(section)].bytes.data(); };
  return {.rows = view.shape.rows,
          .row_bytes = row_bytes(view.shape.cols),
          .cols = static_cast<int>(view.shape.cols),
          .lowest = std::to_integer<uint32_t>(view.sections[kHeader].host[0]) * 0x00800080u,
          .fields = bytes(kFields),
          .blocks = reinterpret_cast<const uint64_t*>(bytes(kBlocks)),
          .records = reinterpret_cast<const uint32_t*>(bytes(kRecords))};
}

// A block of up to 16 rows.
struct BlockPlace {
  FieldsOnGpu matrix;
  int64_t number, first_row;
  int rows;

  ECMV_GPU_DEVICE BlockPlace(const FieldsOnGpu& of, int64_t block) : matrix(of), number(block), first_row(block * 16) {
    const int64_t left = of.rows - first_row;
    rows = left < kBlockRows ? static_cast<int>(left) : kBlockRows;
  }
  // A row's part of the group that begins at a column.
  ECMV_GPU_DEVICE gpu::Pointer<const std::byte> group(int row, int col) const {
    const int row_part = matrix.cols - col <= kGroupColumns / 2 ? 128 : 192;
    return matrix.fields +
           (first_row * matrix.row_bytes + int64_t{col / kGroupColumns} * (192 * rows) + row * row_part);
  }
  // What is stored of an element, `lowest` exponents added.
  ECMV_GPU_DEVICE uint32_t stored(int row, int col) const {
    const auto words = gpu::cast<const uint16_t>(group(row, col / kGroupColumns * kGroupColumns));
    const int strip = col % kGroupColumns / 32, w = col % 32, place = strip == 3 ? 12 : 8 - 4 * strip;
    const uint32_t byte = uint32_t{words[32 + strip / 2 * 32 + w]} >> (strip % 2 * 8) & 255u,
                   code = uint32_t{words[w]} >> place & 7u,
                   sign = uint32_t{words[strip == 3 ? w ^ 1 : w]} >> (strip == 3 ? 3 : place + 7) & 1u;
    return (sign << 15 | code << 8 | byte) + (matrix.lowest & 0xFFFFu);
  }
  // Calls visit(row of the block, col, the element, what is stored of it) for every `step`th record from `first` on.
  template <typename Visit>
  ECMV_GPU_DEVICE void each_record(int first, int step, Visit visit) const {
    const int64_t end = static_cast<int64_t>(matrix.blocks[number + 1]);
    for (int64_t i = static_cast<int64_t>(matrix.blocks[number]) + first; i < end; i += step) {
      const uint32_t record = matrix.records[i];
      const int row = static_cast<int>(record >> 20 & 15u), col = static_cast<int>(record & (kMostCols - 1));
      const uint32_t as_stored = stored(row, col);
      visit(row, col, (as_stored & 0x807Fu) | record >> 24 << 7, as_stored);
    }
  }
};

struct ExponentElements;

// Brings rows to shared memory. The rows of a block lie side by side in a step, and the next step after them.
template <int kRowTiles>
struct BlockRows {
  gpu::Pointer<const std::byte> next[2 * kRowTiles];  // in rows g, g + 8, ...; past the end, the last one again
  int step_bytes[kRowTiles], back[2 * kRowTiles];     // of a block's rows; how much earlier a row of two lines begins
  int cols_left, first_col;                           // of the block from this step on; the lane's first one in a step

  ECMV_GPU_DEVICE BlockRows(const ExponentElements& elements, const gpu::RowsPlace& place);
  ECMV_GPU_DEVICE void copy(gpu::Pointer<std::byte> stage, int parts) {
    const bool two_lines = cols_left <= kGroupColumns / 2;
    ECMV_GPU_UNROLL
    for (int i = 0; i < 2 * kRowTiles; ++i) {
      const gpu::Pointer<const std::byte> from = two_lines ? next[i] - back[i] : next[i];
      ECMV_GPU_UNROLL
      for (int line = 0; line < 3; ++line)
        gpu::copy_async_or_zero<gpu::kLaneBytes>(stage + (3 * i + line) * gpu::kPlaceBytes, from + line * 64,
                                                 cols_left > first_col);
      next[i] = next[i] + parts * step_bytes[i / 2];
    }
    cols_left -= parts * kGroupColumns;
  }
};

struct ExponentElements {
  static constexpr int kLoads = 3, kStrips = 4, kCols = 8, kWholeCols = 8, kTokenRun = 8;
  static constexpr bool kFinishes = true, kScaled = false;
  template <int kRowTiles>
  using Rows = BlockRows<kRowTiles>;

  FieldsOnGpu matrix;

  ECMV_GPU_BOTH explicit ExponentElements(const FieldsOnGpu& of) : matrix(of) {}

  // A lane's eight elements of a strip.
  ECMV_GPU_DEVICE gpu::uint4 chunk(const gpu::uint4 (&lines)[3], int strip) const {
    const gpu::uint4& bytes = lines[1 + strip / 2];
    return {join(lines[0].x, bytes.x, strip), join(lines[0].y, bytes.y, strip), join(lines[0].z, bytes.z, strip),
            join(lines[0].w, bytes.w, strip)};
  }
  ECMV_GPU_DEVICE void chunks(const gpu::uint4 (&above)[3], const gpu::uint4 (&below)[3], int strip, gpu::uint4& upper,
                              gpu::uint4& lower) const {
    upper = chunk(above, strip);
    lower = chunk(below, strip);
  }
  static ECMV_GPU_DEVICE void operands(const gpu::uint4& upper, const gpu::uint4& lower, int eighth,
                                       gpu::uint4 (&a)[2]) {
    gpu::Bf16Elements::operands(upper, lower, eighth, a);
  }
  static ECMV_GPU_DEVICE int unit_pair(int pair) { return gpu::Bf16Elements::unit_pair(pair); }

  // A lane group has the records of a block of rows, in all columns; the shares take turns.
  ECMV_GPU_DEVICE void finish(gpu::Pointer<float> sums, int block_rows, int token_sums, int64_t first_row, int,
                              const gpu::Bf16Tokens& tokens, int share, int shares) const {
    constexpr int kLanes = gpu::kTokenLanes;
    const int groups = gpu::block_size() / kLanes, group = gpu::thread_index() / kLanes;
    for (int i = (group * shares + share) * kBlockRows; i < block_rows; i += groups * shares * kBlockRows) {
      if (first_row + i >= matrix.rows) break;
      BlockPlace(matrix, (first_row + i) / kBlockRows)
          .each_record(gpu::thread_index() % kLanes, kLanes, [&](int row, int col, uint32_t element, uint32_t stored) {
            const float w = gpu::float_of(element << 16), less = w - gpu::float_of(stored << 16);
            for (int token = 0; token < tokens.batch; ++token) {
              // An infinite x made an infinity of the same sign, or, with w = 0, should have made a NaN.
              const uint32_t x = uint32_t{tokens.x[token * tokens.x_stride + col]} << 16;
              gpu::atomic_add(sums + (token * token_sums + i + row),
                              ((x & 0x7FFFFFFFu) == 0x7F800000u ? w : less) * gpu::float_of(x));
            }
          });
    }
  }

 private:
  // Two neighbouring columns of a strip. The rotation also brings the signs of strip 3 to their elements.
  ECMV_GPU_DEVICE uint32_t join(uint32_t codes, uint32_t bytes, int strip) const {
    codes = strip == 0 ? codes : strip == 3 ? codes >> 4 | codes << 28 : codes << (4 * strip);
    bytes = strip % 2 == 0 ? bytes : bytes >> 8;
    return ((codes & 0x87008700u) | (bytes & 0x00FF00FFu)) + matrix.lowest;
  }
};

template <int kRowTiles>
ECMV_GPU_DEVICE BlockRows<kRowTiles>::BlockRows(const ExponentElements& elements, const gpu::RowsPlace& place) {
  const int lane = gpu::Lanes<gpu::kTokenLanes>::lane(), g = lane / 4, t = lane % 4;
  ECMV_GPU_UNROLL
  for (int i = 0; i < 2 * kRowTiles; ++i) {
    const int64_t wanted = place.first + g + 8 * i, row = wanted < place.last ? wanted : place.last;
    const BlockPlace block(elements.matrix, row / kBlockRows);
    const int in_block = static_cast<int>(row % kBlockRows);
    step_bytes[i / 2] = 192 * block.rows;
    back[i] = 64 * in_block;
    next[i] = place.w + (block.first_row * elements.matrix.row_bytes + int64_t{place.step} * step_bytes[i / 2] +
                         in_block * 192 + t * gpu::kLaneBytes);
  }
  cols_left = place.cols_left;
  first_col = t * 8;
}

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
