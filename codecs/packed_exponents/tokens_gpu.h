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
  // The words that have an element, and what is stored of it, `lowest` exponents added.
  struct ElementWords {
    uint32_t codes, bytes;  // two neighbours of line 0; one of another line
  };
  ECMV_GPU_DEVICE ElementWords load(int row, int col) const {
    const auto words = gpu::cast<const uint16_t>(group(row, col / kGroupColumns * kGroupColumns));
    const int strip = col % kGroupColumns / 32, w = col % 32;
    return {*gpu::cast<const uint32_t>(words + w / 2 * 2), words[32 + strip / 2 * 32 + w]};
  }
  ECMV_GPU_DEVICE uint32_t stored(const ElementWords& words, int col) const {
    const int strip = col % kGroupColumns / 32, place = strip == 3 ? 12 : 8 - 4 * strip;
    const uint32_t own = words.codes >> (col % 2 * 16), other = words.codes >> ((col ^ 1) % 2 * 16),
                   byte = words.bytes >> (strip % 2 * 8) & 255u, code = own >> place & 7u,
                   sign = (strip == 3 ? other >> 3 : own >> (place + 7)) & 1u;
    return (sign << 15 | code << 8 | byte) + (matrix.lowest & 0xFFFFu);
  }
  ECMV_GPU_DEVICE uint32_t stored(int row, int col) const { return stored(load(row, col), col); }
  ECMV_GPU_DEVICE int64_t first_record() const { return static_cast<int64_t>(matrix.blocks[number]); }
  ECMV_GPU_DEVICE int64_t end_of_records() const { return static_cast<int64_t>(matrix.blocks[number + 1]); }
};

// What a record says of an element.
struct Outlier {
  int row, col;  // row of the block
  uint32_t exponent;

  explicit ECMV_GPU_DEVICE Outlier(uint32_t record)
      : row(static_cast<int>(record >> 20 & 15u)),
        col(static_cast<int>(record & (kMostCols - 1))),
        exponent(record >> 24) {}
  ECMV_GPU_DEVICE uint32_t element(uint32_t stored) const { return (stored & 0x807Fu) | exponent << 7; }
};

struct ExponentElements;

// The records of a lane group's block of rows, one a lane; the lane groups with the same rows take turns. Where they
// lie is asked for first of all, they before the launch ahead has ended, and what is stored of their elements, and
// tokens, once the first steps are under way.
template <int kTokenTiles>
class RecordEntries {
 public:
  ECMV_GPU_DEVICE RecordEntries(const ExponentElements& elements, const gpu::GroupRows& rows);
  ECMV_GPU_DEVICE void load() {
    left_ = static_cast<int>(end_ - begin_);
    load_record();
  }
  ECMV_GPU_DEVICE void look_up(const gpu::Bf16Tokens& tokens) {
    if (rows_.worker >= left_) return;
    load_words();
    early_ = Turns::load(there() ? Outlier(record_).col : -1, 0, tokens);
  }
  ECMV_GPU_DEVICE void add(const gpu::GroupSums& sums, const gpu::Bf16Tokens& tokens) {
    if (rows_.worker >= left_) return;
    Turns::add(early_, entry(), 0, sums, tokens.batch);
    Turns::add_all(entry(), Turns::kAtOnce, count(), sums, tokens);
    for (;;) {
      begin_ += static_cast<uint64_t>(rows_.workers) * LaneGroup::size();
      left_ -= rows_.workers * LaneGroup::size();
      if (rows_.worker >= left_) return;
      load_record();
      load_words();
      Turns::add_all(entry(), 0, count(), sums, tokens);
    }
  }

 private:
  using LaneGroup = gpu::Lanes<gpu::kTokenLanes>;
  using Turns = gpu::EntryTurns<kTokenTiles>;

  const FieldsOnGpu& matrix_;
  gpu::GroupRows rows_;
  uint64_t begin_ = 0, end_ = 0;
  int left_ = 0;  // records from `begin_` on
  uint32_t record_ = 0;
  BlockPlace::ElementWords words_{};  // of its element
  typename Turns::Tokens early_{};    // of the first entries

  ECMV_GPU_DEVICE int own() const { return rows_.worker + LaneGroup::lane() * rows_.workers; }
  ECMV_GPU_DEVICE bool there() const { return own() < left_; }
  // How many lanes have a record.
  ECMV_GPU_DEVICE int count() const { return gpu::popcount(LaneGroup::ballot(there())); }
  ECMV_GPU_DEVICE void load_record() {
    if (there()) record_ = matrix_.records[static_cast<int64_t>(begin_) + own()];
  }
  ECMV_GPU_DEVICE BlockPlace block() const { return {matrix_, rows_.first / kBlockRows}; }
  ECMV_GPU_DEVICE void load_words() {
    const Outlier outlier(record_);
    if (there()) words_ = block().load(outlier.row, outlier.col);
  }
  ECMV_GPU_DEVICE gpu::TokenEntry entry() const {
    if (!there()) return {};
    const Outlier outlier(record_);
    const uint32_t stored = block().stored(words_, outlier.col);
    // An infinite x made an infinity of the same sign, or, with w = 0, should have made a NaN.
    const float w = gpu::float_of(outlier.element(stored) << 16);
    return {outlier.row, outlier.col, w - gpu::float_of(stored << 16), w};
  }
};

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
  static constexpr bool kScaled = false, kDealt = false, kFours = true;
  template <int kTokenTiles>
  using Entries = RecordEntries<kTokenTiles>;
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
  const gpu::Pointer<const std::byte> own = place.w + t * gpu::kLaneBytes;
  ECMV_GPU_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    const int64_t wanted = place.first + r * kBlockRows,
                  first_row = wanted <= place.last ? wanted : place.last / kBlockRows * kBlockRows,
                  left = place.last - first_row;
    const int last_row = left < kBlockRows ? static_cast<int>(left) : kBlockRows - 1;
    step_bytes[r] = 192 * (last_row + 1);
    const gpu::Pointer<const std::byte> block =
        own + (first_row * elements.matrix.row_bytes + place.step * step_bytes[r]);
    ECMV_GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = g + 8 * half < last_row ? g + 8 * half : last_row;
      back[2 * r + half] = 64 * row;
      next[2 * r + half] = block + row * 192;
    }
  }
  cols_left = place.cols_left;
  first_col = t * 8;
}

template <int kTokenTiles>
ECMV_GPU_DEVICE RecordEntries<kTokenTiles>::RecordEntries(const ExponentElements& elements, const gpu::GroupRows& rows)
    : matrix_(elements.matrix), rows_(rows) {
  if (rows.count == 0) return;
  const gpu::Pointer<const uint64_t> block = matrix_.blocks + rows.first / kBlockRows;
  begin_ = block[0];
  end_ = block[1];
}

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
